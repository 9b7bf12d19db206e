"""The law of the room has teeth: books carried over by a rule that is broken in one place are caught by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.decide.books import refit as refit_module
from sidecar.decide.books.room import Room, room
from sidecar.decide.settings import Settings
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.model import State
from state.topology import Topology
from tests.decide.lawbook.roomlaws import kept_without_room
from tests.support.decide.carried import some_carried_over

Plant = Callable[[pytest.MonkeyPatch], None]

CASES = 2_000
"""How many books a fault gets to show itself; the shyest needs about a hundred."""


def keeps_whatever_was_held(patch: pytest.MonkeyPatch) -> None:
    """Who holds CPUs already is not asked what it leaves to others."""
    _fit_into(patch, lambda room: replace(room, keep=0, keeps_core=False))


def leaves_one_cpu_and_no_more(patch: pytest.MonkeyPatch) -> None:
    """What the node says that the pool keeps at the least is not heeded."""
    _fit_into(patch, lambda room: replace(room, keep=1))


def leaves_no_whole_core(patch: pytest.MonkeyPatch) -> None:
    """CPUs are counted, and where they lie is not looked at."""
    _fit_into(patch, lambda room: replace(room, keeps_core=False))


FAULTS: tuple[Plant, ...] = (keeps_whatever_was_held, leaves_one_cpu_and_no_more, leaves_no_whole_core)


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_refit_with_one_broken_rule_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """By this law, and no other: it says who keeps what a grant would be refused."""
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="would not be granted it"):
        carry_all_over()


def carry_all_over() -> None:
    """Carry books over, one case after another."""
    for seed in range(CASES):
        if found := kept_without_room(*some_carried_over(seed)):
            raise AssertionError(found)


def _fit_into(patch: pytest.MonkeyPatch, change: Callable[[Room], Room]) -> None:
    """Plant another rule where books are carried over, and nowhere else."""

    def planted(topology: Topology, settings: Settings, state: State, strangers: CPUSet) -> Room:
        return change(room(topology, settings, state, strangers))

    patch.setattr(refit_module, "room", planted)
