"""The law of the room has teeth: it catches States that were carried over by a broken rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.decide.books import refit, replacing
from sidecar.decide.books.room import Room, room_in
from sidecar.decide.world import replace
from tests.decide.lawbook.roomlaws import kept_without_room
from tests.support.decide.carried import some_carried_over

Plant = Callable[[pytest.MonkeyPatch], None]

CASES = 2_000
"""How many books a fault gets to show itself; the shyest needs about a hundred."""


def keeps_whatever_was_held(patch: pytest.MonkeyPatch) -> None:
    """Do not check what present holders leave to the pool."""
    _fit_into(patch, lambda room: replace(room, keep=0, keeps_core=False))


def leaves_one_cpu_and_no_more(patch: pytest.MonkeyPatch) -> None:
    """Ignore the node's minimum for the pool."""
    _fit_into(patch, lambda room: replace(room, keep=1))


def leaves_no_whole_core(patch: pytest.MonkeyPatch) -> None:
    """Count CPUs without regard to their cores."""
    _fit_into(patch, lambda room: replace(room, keeps_core=False))


FAULTS: tuple[Plant, ...] = (keeps_whatever_was_held, leaves_one_cpu_and_no_more, leaves_no_whole_core)


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_refit_with_one_broken_rule_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """By this law, and no other: it names the containers that keep CPUs that a grant would be refused."""
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="would not be granted it"):
        carry_all_over()


def carry_all_over() -> None:
    """Carry States over, one case after another."""
    for seed in range(CASES):
        if found := kept_without_room(*some_carried_over(seed)):
            raise AssertionError(found)


def _fit_into(patch: pytest.MonkeyPatch, change: Callable[[Room], Room]) -> None:
    """Plant another rule where States are carried over, and nowhere else."""

    for module in (refit, replacing):
        patch.setattr(module, "room_in", lambda world, state: change(room_in(world, state)))
