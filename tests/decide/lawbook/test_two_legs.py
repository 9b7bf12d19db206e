"""A daemon that is killed between the two legs of an order leaves nothing that the next one does not put right."""

from __future__ import annotations

import pytest

from sidecar.decide.container.container import Container
from sidecar.decide.moves import plan as plan_module
from state.cpuset import CPUSet
from tests.decide.lawbook import placelaws
from tests.decide.lawbook.twolegs import STOPS, Stop, killed_at, written_but_not_recorded
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
