"""The stories of the dynamic policy on a real engine, proven by the workloads' own records, with times.

Each story also checks: a projection was true whenever its workload looked; no container lost a CPU without notice for
the whole of its grace, unless it acknowledged; and no container was called alone wrongly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.containers import Containers
from tests.live.followlog import Notice
from tests.live.kernelview import online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import SidecarProcess
from tests.live.stage import FOUR, Followed, Stage
from tests.live.waiting import PATIENCE, eventually, stays

pytestmark = [pytest.mark.live, pytest.mark.slow]

LINES = 60
"""Of the journal, shown where a promise was broken: which facts came, and in which order."""

LONG = "60s"
"""A grace that no story waits for."""

GRACE = 2.0

FILL = {"cpuset.exclusive": "1", "cpuset.max": "4", "cpuset.grace": f"{GRACE}s"}
SLOW_GRACE = min(5.0 * PATIENCE, 19.0)
"""Long enough for something to happen in the middle of it, and no longer than tenants may ask for by default."""

SLOWLY = FILL | {"cpuset.grace": f"{SLOW_GRACE}s"}
PATIENT = FILL | {"cpuset.grace": LONG}


@pytest.fixture
def stage(ground: Ground, sidecar: SidecarProcess, workloads: Containers, tmp_path: Path) -> Iterator[Stage]:
    """Provide a running daemon, and check at the end what every story promises."""
    if len(online()) < 5:
        pytest.skip(f"needs five CPUs, and this machine has {len(online())}: see `make vm-test`")
    made = Stage(sidecar, workloads, tmp_path / "logs")
    made.open()
    yield made
    found = made.close()
    print("\n".join(made.figures()))
    assert not found, "\n".join((*found, sidecar.log()[-6000:], *map(str, sidecar.journal()[-LINES:])))


def grown(stage: Stage, *arguments: str, labels: dict[str, str] | None = None) -> Followed:
    """Return a workload that has all available CPUs."""
    made = stage.follow("elastic", *arguments, labels=labels or FILL)
    made.until_on(4)
    assert stage.kernel.allowed(made.id) == FOUR
    return made


def only_loss(elastic: Followed) -> Notice:
    """Return the first notice of the only CPUs that it lost."""
    [promises] = elastic.log().losses()
    return promises[0]


def came_after(newcomer: Followed, elastic: Followed) -> bool:
    """Return whether the newcomer was called alone on the lost CPUs only after the other container had left them. CPUs
    on which it merely starts, not confined yet, do not count as its own.
    """
    loss = only_loss(elastic)
    first = next(look for look in newcomer.log().looks if look.settled and look.cpus & loss.cpus)
    return first.ended > loss.had_until


def test_what_is_free_is_grown_into_and_given_back_with_notice(stage: Stage) -> None:
    """A floor arrives: the grown container has notice for its whole grace, never acknowledges, and is shrunk; that is
    counted. The floor goes, and it grows again.
    """
    elastic = grown(stage)
    newcomer = stage.follow("newcomer", labels={"cpuset.exclusive": "2"})
    told = elastic.until_ever(lambda look: look.leaving, "told that CPUs leave")
    assert told.cpus == told.after == FOUR
    assert 0 < (told.deadline_seconds or 0) <= GRACE
    two = newcomer.until_on(2)
    rest = elastic.until_on(2)
    loss = only_loss(elastic)
    assert two.cpus == loss.cpus == told.leaving
    assert rest.cpus == FOUR - loss.cpus == told.desired
    assert came_after(newcomer, elastic)
    assert stage.counted() == (1, 0)
    stage.remove(newcomer.id)
    elastic.until_on(4)
    assert len(elastic.log().losses()) == 1


def test_a_container_that_acknowledges_is_not_waited_for(stage: Stage) -> None:
    """Only a moment of a one-minute grace passes, and the newcomer need not wait longer."""
    elastic = grown(stage, "--ack", "0.05", labels=PATIENT)
    newcomer = stage.follow("newcomer", labels={"cpuset.exclusive": "2"})
    newcomer.until_on(2)
    # Its own log tells of the loss once it has looked again.
    elastic.until_on(2)
    loss = only_loss(elastic)
    assert loss.promised > GRACE
    assert elastic.log().acknowledged[0].at < loss.gone_at
    assert came_after(newcomer, elastic)
    assert stage.counted() == (0, 1)


def test_spare_cpus_are_shared_and_everybody_knows_before_it_shrinks(stage: Stage) -> None:
    """A second one takes half of the spare CPUs; then a floor shrinks both to theirs, each with notice of its own."""
    first = grown(stage)
    second = stage.follow("second", "--ack", "0", labels=PATIENT)
    second.until_on(2)
    first.until_on(2)
    assert first.log().looks[-1].cpus.isdisjoint(second.log().looks[-1].cpus)
    stage.until_alone(stage.run("floor", cpus="2"))
    first.until_on(1)
    second.until_on(1)
    assert first.log().losses()
    assert second.log().losses()
    forced, acknowledged = stage.counted()
    assert forced > 0
    assert acknowledged > 0


def test_a_busy_program_grows_and_an_idle_one_shrinks(stage: Stage) -> None:
    """By its real use. While it is idle, it has its floor, although no other container wants the CPUs."""
    stage.sidecar.configure(load_period="500ms", load_half_life="1s")
    stage.sidecar.terminate()
    stage.sidecar.start()
    elastic = stage.follow("elastic", labels={**FILL, "cpuset.scale": "load"})
    elastic.until_on(1)
    elastic.be_busy(4)
    elastic.until_on(4)
    elastic.be_busy(0)
    elastic.until_on(1)
    assert len(elastic.log().losses()) > 0
    elastic.be_busy(2)
    elastic.until(lambda look: len(look.after) > 1, "it grows again")


def test_a_size_is_ordered(stage: Stage) -> None:
    """By the command, within its range, and only for containers that allow it. CPUs leave with notice."""
    manual = stage.follow(
        "manual", labels={**FILL, "cpuset.exclusive": "2", "cpuset.min": "1", "cpuset.scale": "manual"}
    )
    manual.until_on(2)
    assert stage.sidecar.command("resize", manual.name, "4").returncode == 0
    manual.until_on(4)
    made = stage.sidecar.command("resize", manual.name, "1", "--json")
    assert made.returncode == 0, made.stderr
    answer = json.loads(made.stdout)
    one = manual.until_on(1)
    assert answer["granted"] == str(one.cpus)
    assert answer["leaving"]["cpus"] == str(FOUR - one.cpus)
    refused = stage.sidecar.command("resize", manual.name, "5")
    assert (refused.returncode, manual.log().looks[-1].cpus) == (1, one.cpus)
    assert "4" in refused.stderr


def test_a_sidecar_that_is_killed_in_the_middle_of_a_take_begins_the_grace_anew(stage: Stage) -> None:
    """Nothing is taken while it is down; the next one announces the take again, with a new generation, and keeps that
    promise.
    """
    elastic = grown(stage, labels=SLOWLY)
    newcomer = stage.follow("newcomer", labels={"cpuset.exclusive": "2"})
    before = elastic.until_ever(lambda look: look.leaving, "told that CPUs leave")
    stage.kill()
    stays(lambda: stage.kernel.allowed(elastic.id) == FOUR, "nothing is taken", seconds=SLOW_GRACE + 0.5)
    stage.sidecar.start()
    newcomer.until_on(2)
    elastic.until_on(2)
    [promises] = elastic.log().losses()
    assert promises[0].seconds > 2 * SLOW_GRACE
    assert promises[-1].generation > before.generation
    assert came_after(newcomer, elastic)
    assert stage.counted() == (1, 0)


def test_an_acknowledgement_while_no_sidecar_runs_is_heard_by_the_next(stage: Stage) -> None:
    """The acknowledgement stays valid: a one-minute grace does not begin again."""
    elastic = grown(stage, "--ack", "1", labels=PATIENT)
    newcomer = stage.follow("newcomer", labels={"cpuset.exclusive": "2"})
    elastic.until_ever(lambda look: look.leaving, "told that CPUs leave")
    stage.kill()
    eventually(lambda: elastic.log().acknowledged, "it acknowledged")
    stage.sidecar.start()
    newcomer.until_on(2)
    assert stage.counted() == (0, 1)


@pytest.mark.parametrize("end", ["stop", "kill", "remove"])
def test_a_container_that_ends_in_the_middle_is_not_waited_for(stage: Stage, end: str) -> None:
    """Idle CPUs are granted at once; a container that comes back has only its remaining CPUs."""
    elastic = grown(stage, labels=PATIENT)
    newcomer = stage.follow("newcomer", labels={"cpuset.exclusive": "2"})
    told = elastic.until_ever(lambda look: look.leaving, "told that CPUs leave")
    if end == "remove":
        stage.remove(elastic.id)
    else:
        stage.workloads.api.act(elastic.id, end)
    assert newcomer.until_on(2).cpus == told.leaving
    assert elastic.log().losses() == []
    if end != "remove":
        stage.workloads.api.act(elastic.id, "start")
        elastic.until(lambda look: look.settled and look.cpus == look.after == FOUR - told.leaving, "back on the rest")


def test_what_was_announced_is_not_taken_if_nobody_wants_it_any_more(stage: Stage) -> None:
    """The newcomer goes in the middle of the take: the workload keeps its CPUs, and its file says so."""
    elastic = grown(stage, labels=PATIENT)
    newcomer = stage.run("newcomer", cpus="2")
    told = elastic.until_ever(lambda look: look.leaving, "told that CPUs leave")
    stage.remove(newcomer)
    again = elastic.until_on(4)
    assert again.generation > told.generation
    assert again.cpus == FOUR
    assert elastic.log().losses() == []
    assert stage.counted() == (0, 0)


def test_a_signal_comes_when_the_file_says_it_already(stage: Stage) -> None:
    """With the signal that it asked for, a program need not watch: the file already shows what the signal is about."""
    elastic = grown(stage, "--hear", "USR1", labels={**FILL, "cpuset.signal": "USR1"})
    stage.until_alone(stage.run("newcomer", cpus="2"))
    elastic.until_on(2)
    loss = only_loss(elastic)
    heard = [each for each in elastic.log().heard if each.at < loss.gone_at]
    assert {each.leaving for each in heard if each.leaving} == {loss.cpus}
    eventually(lambda: not elastic.log().heard[-1].leaving, "told of the end of it, too")


def test_exec_acknowledges_for_a_program_that_knows_of_nothing(stage: Stage) -> None:
    """`cpuset-sidecar exec` moves it and acknowledges: a one-minute grace is over in a moment."""
    wrapped = stage.wrap("wrapped", "sleep", "3600", labels=PATIENT)
    stage.sidecar.until(wrapped, lambda it: it.is_settled and it.cpus == FOUR, "grown")
    eventually(
        lambda: [each.name for each in stage.kernel.processes(wrapped)].count("sleep") == 1, "the program was started"
    )
    stage.until_alone(stage.run("newcomer", cpus="2"))
    stage.sidecar.until(wrapped, lambda it: it.is_settled and len(it.cpus) == 2, "shrunk")
    assert stage.counted() == (0, 1)


@pytest.mark.timeout(300 * PATIENCE)
def test_an_engine_that_is_killed_in_the_middle_of_a_take(own_engine: PrivateEngine, stage: Stage) -> None:
    """The containers run on, nothing can be taken meanwhile, and no projection becomes false."""
    own_engine.stop()
    own_engine.start(live_restore=True)
    elastic = grown(stage, labels=SLOWLY)
    newcomer = stage.follow("newcomer", labels={"cpuset.exclusive": "2"})
    elastic.until_ever(lambda look: look.leaving, "told that CPUs leave")
    newcomer.until(lambda look: look.sharing == "exclusive", "it was granted its own")
    own_engine.kill()
    stays(lambda: stage.kernel.allowed(elastic.id) == FOUR, "nothing is taken", seconds=SLOW_GRACE + 0.5)
    own_engine.start(live_restore=True)
    newcomer.until_on(2)
    elastic.until_on(2)
    assert came_after(newcomer, elastic)
    assert stage.counted() == (1, 0)
