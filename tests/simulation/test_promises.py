"""Promises of the pages, each by a scenario in which it was once broken."""

from __future__ import annotations

import msgspec

from sidecar.decide.settings import PolicyName
from sidecar.simulation.busy_host import Pace
from sidecar.simulation.happenings import What
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import EMPTY, CPUSet
from state.topology import uniform
from tests.simulation.hosts import CONFIG, host, runs, said

replace = msgspec.structs.replace


def test_two_that_start_together_are_each_alone_at_once() -> None:
    """The one that is cut from its number loses nothing that it ever had: there is nothing to give notice of."""
    sim = Simulation(uniform(cores=3), CONFIG, pace=Pace(between=0))
    sim.advance(1)
    sim.create("elastic", {"cpuset.exclusive": "2", "cpuset.min": "1", "cpuset.grace": "60s"})
    sim.create("fixed", {"cpuset.exclusive": "1"})
    sim.run("elastic")
    sim.run("fixed")
    sim.advance(3)
    assert (sim.cpus_of("elastic"), sim.cpus_of("fixed")) == (CPUSet.of(1), CPUSet.of(2))
    sim.advance(70)
    assert sim.cpus_of("elastic") == CPUSet.of(1)


def test_an_arrival_that_ran_everywhere_waits_for_the_whole_notice_elsewhere() -> None:
    """It started while the sidecar was away; that it ran there among all others is no right to stay."""
    sim = host(8)
    runs(sim, "batch", 1, most=7, grace="60s")
    sim.advance(10)
    sim.crash_sidecar()
    sim.advance(11)
    runs(sim, "db", 3)
    sim.advance(12)
    assert sim.cpus_of("db") == CPUSet(range(8))
    sim.start_sidecar()
    sim.advance(13)
    assert (sim.cpus_of("batch"), sim.cpus_of("db")) == (CPUSet(range(1, 8)), CPUSet.of(0))
    sim.advance(73)
    assert len(sim.cpus_of("db")) == 3
    assert sim.cpus_of("db") & sim.cpus_of("batch") == EMPTY
    assert sim.broken == []


def test_a_created_container_stays_on_its_cpus_when_another_is_created() -> None:
    """Its start finds it pinned: it is not sent to the reserved CPU until the other is pinned, too."""
    sim = host(6)
    runs(sim, "first", 2)
    sim.advance(0.2)
    sim.create("second", {"cpuset.exclusive": "2"})
    sim.advance(2)
    assert sim.cpus_of("first") == CPUSet.of(1, 2)
    assert len(said(sim, "first", What.RUNS_ON)) == 0


def test_a_waiting_container_is_not_granted_the_shared_pool_as_it_stands() -> None:
    """It asks for three CPUs of one node of two; the pool in which it waits has three CPUs, of two nodes."""
    config = replace(CONFIG, policy=PolicyName.STATIC, options=("strict-cpu-reservation",))
    sim = host(config=config, machine=uniform(packages=2, nodes=2, cores=2))
    runs(sim, "b", 2)
    runs(sim, "e", 2)
    sim.advance(3)
    labels = {"cpuset.exclusive": "3", "cpuset.numa": "single", "cpuset.on-shortage": "wait"}
    sim.create("c", labels)
    sim.run("c")
    sim.advance(8)
    sim.stop("e")
    sim.advance(20)
    assert len(sim.cpus_of("c")) == 5
    assert said(sim, "c", "granted") == []
