"""A daemon that is killed between the two legs of an order leaves nothing that the next one does not put right."""

from __future__ import annotations

import pytest

from sidecar.decide.books import pinned
from sidecar.decide.container.container import Container
from sidecar.decide.moves import plan as plan_module
from sidecar.decide.world import World
from state.cpuset import CPUSet
from tests.decide.lawbook import laws, placelaws
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


def looks_at_the_pin_alone(patch: pytest.MonkeyPatch) -> None:
    """Where a container that is pinned by hand runs counts only as far as it is pinned there."""

    def claimed(world: World, container: Container) -> CPUSet:
        return container.place.configured & CPUSet.from_mask(container.footprint)

    patch.setattr(pinned, "_claimed", claimed)


ASTRAY = 40949
"""A history whose hand moves a locked container, which is pinned by hand, off an owner's CPU, and is killed. The next
hand does not know what it had.
"""


@pytest.mark.parametrize("stop", STOPS[2:], ids=_NAMES[2:])
def test_an_owner_leaves_a_stranger_that_a_killed_hand_has_moved(monkeypatch: pytest.MonkeyPatch, stop: Stop) -> None:
    """It runs where it was put until its next start, and the owner is alone elsewhere."""
    assert killed_at(stop, ASTRAY)
    looks_at_the_pin_alone(monkeypatch)
    with pytest.raises(Broken) as broken:
        killed_at(stop, ASTRAY)
    assert laws.ASIDE in broken.value.laws


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
