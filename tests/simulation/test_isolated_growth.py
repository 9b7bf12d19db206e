"""Growth and moves beside CPUs that the kernel isolates: none stays idle, is divided, or is given up for others."""

from __future__ import annotations

import msgspec

from sidecar.config.config import Config
from sidecar.decide.settings import IsolatedRule
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from state.topology import uniform
from tests.simulation.hosts import CONFIG, host, runs

replace = msgspec.structs.replace

PREFER = replace(CONFIG, isolated=IsolatedRule.PREFER)


def partly_isolated(isolated: str, config: Config = PREFER, *, nodes: int = 1, threads: int = 1) -> Simulation:
    """Return a host of eight cores on which the kernel isolates these CPUs."""
    machine = replace(uniform(nodes=nodes, cores=8 // nodes, threads=threads), isolated=CPUSet.parse(isolated))
    return host(config=config, machine=machine)


def test_one_that_began_on_other_cpus_grows_onto_isolated_ones_before_they_stay_idle() -> None:
    """The shared pool keeps its minimum of the others: what is isolated takes nothing from it."""
    sim = partly_isolated("6-7", replace(PREFER, shared_min=4))
    runs(sim, "first", 1)
    runs(sim, "second", 2, most=8)
    sim.advance(60)
    assert (sim.cpus_of("first"), sim.cpus_of("second")) == (CPUSet.of(6), CPUSet.of(1, 2, 7))


def test_one_on_isolated_cpus_grows_onto_these_first() -> None:
    sim = partly_isolated("4-6")
    runs(sim, "one", 2, most=3)
    sim.advance(60)
    assert sim.cpus_of("one") == CPUSet.of(4, 5, 6)


def test_a_core_that_is_isolated_in_part_is_not_divided() -> None:
    """It comes after those that are isolated as a whole, or not at all."""
    config = replace(PREFER, options=("full-pcpus-only",))
    sim = partly_isolated("2-3,7,11,13", config, threads=2)
    runs(sim, "one", 2, most=5)
    sim.advance(60)
    cores = [core.cpus for core in sim.world.topology.cores]
    assert len(sim.cpus_of("one")) == 4
    assert [core for core in cores if core & sim.cpus_of("one") and not core <= sim.cpus_of("one")] == []


def test_no_container_is_moved_from_isolated_cpus_to_others() -> None:
    """Though its CPUs would lie closer together."""
    for rule in (IsolatedRule.PREFER, IsolatedRule.ONLY):
        machine = replace(uniform(packages=2, cores=2, threads=2, nodes=2), isolated=CPUSet.parse("4,7,9,11,13,15"))
        sim = host(config=replace(CONFIG, isolated=rule, reserved=CPUSet.of(0, 8)), machine=machine)
        runs(sim, "first", 2)
        sim.create("second", {"cpuset.exclusive": "2", "cpuset.move": "true"})
        sim.run("second")
        sim.advance(5)
        sim.stop("first")
        sim.advance(60)
        assert sim.cpus_of("second") <= machine.isolated
