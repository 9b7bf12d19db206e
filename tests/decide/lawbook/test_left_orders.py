"""What a killed daemon left in the engine breaks no law, whenever it lands; and each planted fault is caught."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.decide.lawbook.left_faults import FAULTS
from tests.decide.lawbook.leftorders import killed_with_an_order
from tests.support.decide.histories import Broken
from tests.support.decide.reality import Reality
from tests.support.laws import Law

HISTORIES = 2_000
"""How many histories a fault gets to show itself."""


@pytest.mark.parametrize(
    ("first", "last", "with_hand"),
    [
        (0, 150, False),
        (0, 40, True),
        *(pytest.param(at, at + 300, False, marks=pytest.mark.slow) for at in (150, 450)),
        *(pytest.param(at, at + 100, True, marks=pytest.mark.slow) for at in (40, 140)),
    ],
)
def test_an_order_that_a_killed_daemon_left_breaks_no_law(first: int, last: int, *, with_hand: bool) -> None:
    """Many of the histories have one, so that this says something."""
    assert sum(killed_with_an_order(seed, with_hand=with_hand) for seed in range(first, last)) > (last - first) // 8


@pytest.mark.parametrize(("plant", "law", "first"), FAULTS, ids=[plant.__name__ for plant, *_ in FAULTS])
def test_a_daemon_with_one_broken_rule_about_such_orders_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], law: Law[Reality], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(_breaks(law, seed) for seed in range(first, first + HISTORIES))


def _breaks(law: Law[Reality], seed: int) -> bool:
    try:
        killed_with_an_order(seed)
    except Broken as broken:
        return law in broken.laws
    return False
