"""A reload in a scenario is a SIGHUP: what it changes, when, and what it leaves alone; and a release by name."""

from __future__ import annotations

import msgspec

from sidecar.decide.settings import PolicyName, Rule
from sidecar.simulation.happenings import What
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from state.topology import uniform
from tests.simulation.hosts import CONFIG, host, runs, said

replace = msgspec.structs.replace


def why(sim: Simulation, what: What) -> list[str]:
    return [each.why for each in sim.log if each.what == what]


def test_a_reservation_takes_effect_at_once() -> None:
    """The CPU that is now reserved is replaced; another one stays."""
    sim = host()
    runs(sim, "own", 2)
    sim.advance(1)
    assert sim.cpus_of("own") == CPUSet.of(1, 2)
    sim.reload(replace(CONFIG, reserved=CPUSet.of(0, 1)), (("reserved", "0-1"),))
    sim.advance(2)
    assert sim.cpus_of("own") == CPUSet.of(2, 3)
    assert why(sim, What.RELOAD) == ["reserved = 0-1"]
    assert sim.frames[-1].reserved == CPUSet.of(0, 1)
    assert sim.broken == []


def test_a_policy_that_changes_sizes_ends_and_begins() -> None:
    """Under `static` it has its number again; under `dynamic` it grows."""
    sim = host()
    runs(sim, "own", 2, most=5, grace="0s")
    sim.advance(2)
    assert len(sim.cpus_of("own")) == 5
    sim.reload(replace(CONFIG, policy=PolicyName.STATIC))
    sim.advance(4)
    assert len(sim.cpus_of("own")) == 2
    sim.reload(CONFIG)
    sim.advance(6)
    assert len(sim.cpus_of("own")) == 5


def test_a_policy_that_keeps_sizes_leaves_the_first_cpus() -> None:
    """Neither half a core, nor another one than at first, even where a half of that is free for itself."""
    options = ("full-pcpus-only",)
    machine = uniform(cores=4, threads=2)
    sim = Simulation(machine, replace(CONFIG, reserved=CPUSet.of(0, 4), options=options))
    runs(sim, "first", 2)
    runs(sim, "own", 2, most=8, grace="0s")
    sim.advance(2)
    assert sim.cpus_of("own") == CPUSet.of(2, 3, 6, 7)
    sim.stop("first")
    sim.advance(4)
    sim.switch_off(CPUSet.of(5))
    sim.reload(replace(CONFIG, reserved=CPUSet.of(0, 4), options=options, policy=PolicyName.STATIC))
    sim.advance(6)
    assert sim.cpus_of("own") == CPUSet.of(2, 6)


def test_of_a_core_that_is_half_offline_the_other_half_goes() -> None:
    """The number is a whole core, and not the halves of two."""
    options = ("full-pcpus-only",)
    sim = Simulation(uniform(cores=6, threads=2), replace(CONFIG, reserved=CPUSet.of(0, 6), options=options))
    runs(sim, "own", 2, most=8, grace="0s")
    sim.advance(2)
    assert CPUSet.of(1, 7) <= sim.cpus_of("own")
    sim.switch_off(CPUSet.of(1))
    sim.reload(replace(CONFIG, reserved=CPUSet.of(0, 6), options=options, policy=PolicyName.STATIC))
    sim.advance(4)
    assert sim.cpus_of("own") == CPUSet.of(2, 8)


def test_a_sidecar_that_was_killed_reads_it_at_its_start() -> None:
    sim = host()
    runs(sim, "own", 2)
    sim.advance(1)
    sim.crash_sidecar()
    sim.reload(replace(CONFIG, reserved=CPUSet.of(1)))
    sim.advance(2)
    assert sim.cpus_of("own") == CPUSet.of(1, 2)
    sim.start_sidecar()
    sim.advance(3)
    assert sim.cpus_of("own").isdisjoint(CPUSet.of(1))


def test_what_the_machine_cannot_have_changes_nothing() -> None:
    sim = host()
    sim.reload(replace(CONFIG, reserved=CPUSet.of(9)))
    sim.advance(2)
    assert sim.world.state.reserved == CPUSet.of(0)
    assert why(sim, What.RELOAD) == [
        "not done: the configuration: reserved is 9, but 9 is not on this machine: it has 0-7",
    ]


def test_what_is_offline_is_reserved_when_it_is_back() -> None:
    """Until then another CPU stands in for it; through a crash as well."""
    sim = host()
    sim.switch_off(CPUSet.of(7))
    sim.advance(1)
    sim.reload(replace(CONFIG, reserved=CPUSet.of(7)))
    sim.advance(2)
    assert len(sim.world.state.reserved) == 1
    sim.crash_sidecar()
    sim.advance(3)
    sim.start_sidecar()
    sim.advance(4)
    told = "the configuration: reserved is 7, and CPU 7 is offline: it is reserved as soon as it is back"
    assert why(sim, What.WARNING) == [told, told]
    assert len(sim.world.state.reserved) == 1
    sim.switch_on(CPUSet.of(7))
    sim.advance(6)
    assert sim.world.state.reserved == CPUSet.of(7)


def test_a_rule_can_come_with_a_reload() -> None:
    sim = host()
    sim.create("db-1", image="db:1")
    sim.start("db-1")
    sim.advance(1)
    assert len(sim.cpus_of("db-1")) == 8
    sim.reload(replace(CONFIG, rules=(Rule(labels={"cpuset.exclusive": "2"}, image="db:*", place="here"),)))
    sim.advance(2)
    assert len(sim.cpus_of("db-1")) == 2


def test_a_release_lasts_until_the_next_start() -> None:
    sim = host()
    runs(sim, "own", 2)
    sim.advance(1)
    sim.release("own")
    sim.advance(2)
    assert (len(sim.cpus_of("own")), why(sim, What.RELEASE)) == (8, [""])
    sim.release("own")
    sim.stop("own")
    sim.start("own")
    sim.advance(4)
    assert (len(sim.cpus_of("own")), len(said(sim, "own", "granted"))) == (2, 2)
    assert why(sim, What.RELEASE)[1].startswith("not done: ")


def test_beside_a_number_that_waits_for_the_next_request_a_notice_counts_at_once() -> None:
    """It keeps its 2 CPUs as its floor, and loses what is above them with the notice of the new rule."""
    config, rule = (
        replace(CONFIG, grace_seconds=3.0),
        Rule(name="a", labels={"cpuset.exclusive": "2", "cpuset.max": "6"}),
    )
    sim = host(config=replace(config, rules=(rule,)))
    sim.create("a")
    sim.start("a")
    sim.advance(2)
    labels = {"cpuset.exclusive": "1", "cpuset.max": "6", "cpuset.grace": "15s"}
    sim.reload(replace(config, rules=(Rule(name="a", labels=labels),)))
    sim.advance(5)
    runs(sim, "b", 5)
    sim.advance(19)
    assert len(sim.cpus_of("a")) == 6
    sim.advance(21)
    assert (len(sim.cpus_of("a")), len(sim.cpus_of("b"))) == (2, 5)
