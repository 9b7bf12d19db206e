"""Strict starts in a scenario: on its own CPUs from the first instruction, or not at all, with the reason."""

from __future__ import annotations

import msgspec

from sidecar.__main__ import parser
from sidecar.api import start_route
from sidecar.decide.placement.options import STRICT_CPU_RESERVATION
from sidecar.simulation.happenings import What
from sidecar.simulation.strict_starts import ANSWER_SECONDS, NOT_RUNNING, PATIENCE_SECONDS, TOO_LATE
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import EMPTY, CPUSet
from tests.simulation.hosts import CONFIG, host, runs, said


def strict(sim: Simulation, name: str, cpus: str = "2", **labels: str) -> None:
    """Create a container with the strict runtime, and start it."""
    sim.create(
        name, {"cpuset.exclusive": cpus} | {f"cpuset.{key}": value for key, value in labels.items()}, runtime="cpuset"
    )
    sim.run(name)


def ending(sim: Simulation, name: str) -> str:
    """Return why the last start of a container failed."""
    return [each.why for each in sim.log if each.container == name and each.what == What.NOT_STARTED][-1]


def test_it_starts_on_its_cpus_after_the_others_have_left() -> None:
    """However long they take: here a notice of five seconds."""
    sim = host()
    runs(sim, "batch", 1, most=7, grace="5s")
    sim.advance(10)
    strict(sim, "own", "3")
    sim.advance(14)
    assert sim.cpus_of("own") == EMPTY
    sim.advance(16)
    assert len(sim.cpus_of("own")) == 3
    assert sim.cpus_of("own").isdisjoint(sim.cpus_of("batch"))
    assert [each.cpus for each in sim.log if each.container == "own" and each.what == What.RUNS_ON] == []
    assert sim.broken == []


def test_one_that_is_refused_does_not_start_and_says_why() -> None:
    """Too few CPUs, or a label that is probably misspelt."""
    sim = host(3)
    strict(sim, "large", "3")
    sim.create("odd", {"cpuset.exclusiv": "1"}, runtime="cpuset")
    sim.run("odd")
    sim.advance(5)
    assert (sim.cpus_of("large"), sim.cpus_of("odd")) == (EMPTY, EMPTY)
    assert ending(sim, "large").startswith("asked for 3 exclusive CPUs")
    assert ending(sim, "odd") == "unknown label 'cpuset.exclusiv'; did you mean 'cpuset.exclusive'?"


def test_a_sidecar_that_is_away_is_waited_for() -> None:
    """Ten seconds: then the start fails."""
    sim = host()
    sim.crash_sidecar()
    strict(sim, "early")
    sim.advance(5)
    sim.start_sidecar()
    sim.advance(6)
    assert len(sim.cpus_of("early")) == 2
    sim.crash_sidecar()
    strict(sim, "late")
    sim.advance(6.1 + PATIENCE_SECONDS)
    assert (sim.cpus_of("late"), ending(sim, "late")) == (EMPTY, NOT_RUNNING)


def test_the_times_are_those_of_the_program() -> None:
    given = parser("install-runtime").parse_args(["install-runtime"])
    assert (given.patience, start_route.ANSWER_SECONDS) == (PATIENCE_SECONDS, ANSWER_SECONDS)


def test_a_start_that_gets_no_answer_in_time_fails() -> None:
    """The other one has a notice of a minute, and may."""
    sim = host(3, msgspec.structs.replace(CONFIG, tenants_longest_notice_seconds=60.0))
    runs(sim, "batch", 1, most=2, grace="60s")
    sim.advance(5)
    strict(sim, "own", "1")
    sim.stop("own")
    sim.advance(36)
    assert ending(sim, "own") == TOO_LATE
    assert said(sim, "own", What.STARTED) == []


def test_what_is_taken_between_the_answer_and_the_start_has_its_notice() -> None:
    """It starts on all that it was answered, keeps that for its notice, and is never sent to the reserved CPU."""
    sim = host()
    strict(sim, "own", "3", min="2")
    sim.advance(0.05)
    runs(sim, "late", 5)
    sim.advance(1.9)
    assert sim.cpus_of("own") == CPUSet.of(1, 2, 3)
    sim.advance(5)
    assert (sim.cpus_of("own"), sim.cpus_of("late")) == (CPUSet.of(1, 2), CPUSet.of(3, 4, 5, 6, 7))
    assert [each.cpus for each in sim.log if each.container == "own" and each.what == What.RUNS_ON] == [CPUSet.of(1, 2)]
    assert sim.broken == []


def test_what_is_taken_from_one_that_ends_at_once_needs_no_notice() -> None:
    """Nothing runs any more that could be notified."""
    sim = host()
    strict(sim, "own", "3", min="2")
    sim.advance(0.05)
    runs(sim, "late", 5)
    sim.stop("own")
    sim.advance(1.5)
    assert sim.cpus_of("late") == CPUSet.of(3, 4, 5, 6, 7)


def test_a_sidecar_that_restarts_while_a_start_is_under_way_keeps_its_cpus() -> None:
    """Without linger too: the start was answered, and the new sidecar can only glance at the container."""
    sim = host(6, msgspec.structs.replace(CONFIG, linger_seconds=0.0))
    strict(sim, "own")
    sim.advance(5)
    sim.stop("own")
    sim.run("own")
    sim.advance(5.2)
    sim.crash_sidecar()
    sim.start_sidecar()
    sim.advance(7)
    assert sim.cpus_of("own") == CPUSet.of(1, 2)
    assert len(said(sim, "own", What.STARTED)) == 2
    assert said(sim, "own", "released") == []
    assert sim.broken == []


def test_a_start_that_was_held_over_a_restart_lifts_no_limit() -> None:
    """A glance shows no limits: the ceiling above its limit, which needs a right, has no effect from the first look."""
    sim = host(6)
    sim.crash_sidecar()
    sim.create("own", {"cpuset.exclusive": "1", "cpuset.max": "3"}, runtime="cpuset", limit=1)
    sim.run("own")
    sim.advance(3)
    sim.start_sidecar()
    sim.advance(10)
    assert sim.cpus_of("own") == CPUSet.of(1)
    assert said(sim, "own", "grew") == []


def test_what_ended_while_no_sidecar_ran_keeps_no_start_waiting() -> None:
    """With `linger` at 0 its CPUs are free in the decision in which the start is answered."""
    sim = host(4, msgspec.structs.replace(CONFIG, linger_seconds=0.0))
    runs(sim, "gone", 3)
    sim.advance(5)
    sim.crash_sidecar()
    sim.stop("gone")
    sim.advance(10)
    strict(sim, "own", "3")
    sim.advance(12)
    sim.start_sidecar()
    sim.advance(15)
    assert sim.cpus_of("own") == CPUSet.of(1, 2, 3)
    assert said(sim, "own", What.NOT_STARTED) == []


def test_nobody_is_let_in_where_it_was_told_to_start() -> None:
    """Its grant ends by a reload between the answer and its first instruction: others wait until it has started."""
    apart = msgspec.structs.replace(CONFIG, options=(STRICT_CPU_RESERVATION,))
    sim = host(3, apart)
    sim.create("plain")
    sim.run("plain")
    sim.advance(2)
    strict(sim, "own", "1")
    sim.advance(2.1)
    sim.reload(msgspec.structs.replace(apart, shared_min=2), (("shared_min", "2"),))
    sim.advance(5)
    (started,) = said(sim, "own", What.STARTED)
    assert min(at for at in said(sim, "plain", What.RUNS_ON) if at > 2.1) > started
    assert sim.cpus_of("own") == sim.cpus_of("plain") == CPUSet.of(1, 2)


def test_an_owner_that_lost_its_cpu_enters_none_where_a_start_was_answered() -> None:
    """The pool was told to the one that starts before the loss was noticed: it starts beside no owner."""
    sim = host(4, msgspec.structs.replace(CONFIG, reserved=CPUSet.of(0, 1)))
    runs(sim, "owner", 1)
    sim.advance(4)
    sim.switch_off(CPUSet.of(2))
    sim.create("plain", runtime="cpuset")
    sim.run("plain")
    sim.advance(8)
    (started,) = said(sim, "plain", What.STARTED)
    where = [(each.at, each.cpus) for each in sim.log if each.container == "owner" and each.what == What.RUNS_ON]
    assert [cpus for at, cpus in where if at < started][-1] == CPUSet.of(0, 1)
    assert sim.cpus_of("owner") == CPUSet.of(3)


def test_what_asks_for_nothing_starts_in_the_pool() -> None:
    """At once, and off the CPUs of others."""
    sim = host()
    runs(sim, "own", 2)
    sim.advance(1)
    sim.create("plain", runtime="cpuset")
    sim.run("plain")
    sim.advance(2)
    assert sim.cpus_of("plain") == CPUSet.of(0, 3, 4, 5, 6, 7)
    assert len(said(sim, "plain", What.STARTED)) == 1
    assert said(sim, "plain", What.RUNS_ON) == []
