"""A daemon that is killed between the two legs of an order leaves nothing that the next one does not put right."""

from __future__ import annotations

import pytest

from sidecar.decide.container.container import Container
from sidecar.decide.moves import plan as plan_module
from state.cpuset import CPUSet
from tests.decide.lawbook import placelaws
from tests.decide.lawbook.twolegs import STOPS, Stop, killed_at, written_but_not_recorded
from tests.decide.long_run import main_of_stops
from tests.support.decide.histories import STATIC, Broken

_NAMES = [stop.__name__ for stop in STOPS]


@pytest.mark.parametrize("stop", STOPS, ids=_NAMES)
@pytest.mark.parametrize(
    ("first", "last"), [(0, 20), *(pytest.param(at, at + 100, marks=pytest.mark.slow) for at in (20, 120))]
)
def test_books_kernel_and_engine_agree_after_a_kill_at_each_step(stop: Stop, first: int, last: int) -> None:
    """At rest every law holds, and the stop is in some histories, so that this says something."""
    assert sum(killed_at(stop, seed) for seed in range(first, last)) > (last - first) // 20


def takes_what_runs_for_recorded(patch: pytest.MonkeyPatch) -> None:
    """A container that the kernel has where it should be needs no record."""

    def is_there(container: Container, cpus: CPUSet) -> bool:
        return container.place.seen == cpus

    patch.setattr(plan_module, "is_there", is_there)


def test_a_daemon_that_forgets_the_second_leg_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written before the kill is never recorded by it: at rest, kernel and engine differ."""
    takes_what_runs_for_recorded(monkeypatch)
    assert any(_differs(seed) for seed in range(20))


def _differs(seed: int) -> bool:
    try:
        killed_at(written_but_not_recorded, seed, STATIC)
    except Broken as broken:
        return placelaws.AGREED in broken.laws
    return False


def test_a_long_run_tells_what_it_killed_and_what_broke(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each seed is played once for each stop. The run fails if a history does, and names it."""
    assert main_of_stops(len(STOPS), 1) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{len(STOPS)} histories, ")
    assert " 0 broken" in told
    killed = sum(killed_at(stop, 1) for stop in STOPS)
    assert f"{killed} killed" in told
    assert killed > 0
    takes_what_runs_for_recorded(monkeypatch)
    assert main_of_stops(20 * len(STOPS)) == 1
    told = capsys.readouterr().out
    assert any(str(placelaws.AGREED.name) in line for line in told.splitlines() if line.startswith("seed "))
