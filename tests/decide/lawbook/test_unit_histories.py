"""The laws hold where units of systemd ask as containers do, and those of what is not told yet have teeth."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import ViewKind
from tests.decide.lawbook import list_faults, unit_faults
from tests.decide.lawbook.faults import Fault
from tests.decide.long_run import history
from tests.support.decide.histories import DYNAMIC, STATIC


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, 100), *(pytest.param(start, start + 250, marks=pytest.mark.slow) for start in range(100, 1100, 250))],
)
def test_histories_with_owning_units_break_no_law(first: int, last: int) -> None:
    """Half of those that ask are units, and a daemon that starts may not be told which, for a while."""
    for seed in range(first, last):
        history(seed, with_units=True)


def test_units_are_granted_cpus_in_these_histories() -> None:
    """In most of them, so that the laws are about something."""
    worlds = [history(seed, with_units=True).world for seed in range(40)]
    granted = [key for world in worlds for key in world.state.assignments if key.is_unit]
    assert len(granted) > 10
    kinds = {each.view.kind for world in worlds for each in world.containers.values()}
    assert {ViewKind.UNIT, ViewKind.CONTAINER} <= kinds


PLANTED = (*unit_faults.FAULTS, *list_faults.UNIT_FAULTS)


@pytest.mark.parametrize("fault", PLANTED, ids=[fault.name for fault in PLANTED])
def test_a_daemon_that_takes_silence_for_an_answer_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some history that law is broken before any other."""
    fault.plant(monkeypatch)
    assert fault.caught((*STATIC, *DYNAMIC), with_units=True) is not None
