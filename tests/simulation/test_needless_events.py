"""An event that finds done what it asks for changes nothing, and its line says that, and why."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.settings import PolicyName
from sidecar.simulation.happenings import What
from sidecar.simulation.virtual_host import Simulation
from state.cpuset import CPUSet
from tests.simulation.hosts import CONFIG, host


def last(sim: Simulation) -> tuple[str, str, str, str]:
    """Return the last line: what, of which container, which CPUs, why."""
    line = sim.log[-1]
    return line.what, line.container, str(line.cpus), line.why


@pytest.fixture
def sim() -> Simulation:
    """Return a host of four CPUs at 1 s, with a container that runs."""
    made = host(4)
    made.create("web")
    made.start("web")
    made.advance(1)
    return made


def test_a_container_that_runs_is_not_started_again(sim: Simulation) -> None:
    """It is known when the engine is done with it: one that is being stopped is started."""
    sim.start("web")
    sim.advance(2)
    assert last(sim) == ("start", "web", "", "not done: it runs already")
    sim.stop("web")
    sim.start("web")
    sim.advance(3)
    assert [each.what for each in sim.log[-2:]] == [What.STOPPED, What.STARTED]


def test_nor_is_one_with_a_strict_start() -> None:
    sim = host(4)
    sim.create("web", {"cpuset.exclusive": "1"}, runtime="cpuset")
    sim.start("web")
    sim.start("web")
    sim.advance(1)
    assert [each.what for each in sim.log if each.container == "web"].count(What.STARTED) == 1
    assert [each.why for each in sim.log if each.what == What.START] == ["not done: it runs already"]


def test_a_container_that_does_not_run_is_not_stopped(sim: Simulation) -> None:
    sim.stop("web")
    sim.stop("web")
    sim.advance(2)
    assert [each.what for each in sim.log].count(What.STOPPED) == 1
    assert last(sim) == ("stop", "web", "", "not done: it does not run")


def test_cpus_go_and_come_once(sim: Simulation) -> None:
    """Of several, the line names those that went or came, and the others."""
    sim.switch_off(CPUSet.of(3))
    sim.switch_off(CPUSet.of(3))
    assert last(sim) == ("offline", "", "3", "not done: CPU 3 is offline already")
    sim.switch_off(CPUSet.of(2, 3))
    assert last(sim) == ("went offline", "", "2", "CPU 3 is offline already")
    sim.switch_on(CPUSet.parse("0-2"))
    assert last(sim) == ("came online", "", "2", "CPUs 0-1 are online already")
    sim.switch_on(CPUSet.parse("0-2"))
    assert last(sim) == ("online", "", "0-2", "not done: CPUs 0-2 are online already")
    sim.switch_on(CPUSet.of(3))
    assert last(sim) == ("came online", "", "3", "")


def test_a_sidecar_is_killed_once_and_started_once(sim: Simulation) -> None:
    """A dead one defragments nothing either."""
    sim.start_sidecar()
    assert last(sim) == ("restart", "", "", "not done: the sidecar runs already")
    sim.crash_sidecar()
    assert last(sim) == (What.SIDECAR_CRASHED, "", "", "")
    sim.crash_sidecar()
    assert last(sim) == ("crash", "", "", "not done: the sidecar does not run")
    sim.defragment()
    assert last(sim) == ("defragment", "", "", "not done: the sidecar does not run")


def test_a_defragmentation_that_moves_nothing_says_why() -> None:
    sim = host(4)
    sim.defragment()
    why = "no container with exclusive CPUs may be moved: give it cpuset.move=true"
    assert last(sim) == ("defragment", "", "", f"not done: {why}")
    sim.reload(msgspec.structs.replace(CONFIG, policy=PolicyName.STATIC))
    sim.advance(1)
    sim.defragment()
    why = "the policy is static: only dynamic changes the CPUs of a running container"
    assert last(sim) == ("defragment", "", "", f"not done: {why}")


def test_nothing_else_changes_by_it(sim: Simulation) -> None:
    """Neither what is decided, nor how things stand."""
    frames, state = list(sim.frames), sim.world.state
    sim.start("web")
    sim.switch_on(CPUSet.of(1))
    sim.start_sidecar()
    sim.advance(1.5)
    assert sim.log[-1].what == What.START
    assert (sim.frames, sim.world.state) == (frames, state)
