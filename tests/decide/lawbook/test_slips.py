"""Histories in which tenants close their groups to the hand: the laws hold, and planted faults are caught."""

from __future__ import annotations

from collections import Counter

import pytest

from sidecar.decide.hand_facts import Slipped
from tests.decide.lawbook import slip_faults
from tests.decide.lawbook.faults import Fault
from tests.decide.long_run import history, is_shutting
from tests.support.decide.handreality import HandReality
from tests.support.decide.histories import BEGUN_WITH


@pytest.mark.parametrize(
    ("with_two", "wraps"),
    [
        pytest.param(False, False, id="one engine"),
        pytest.param(True, False, id="two engines"),
        pytest.param(False, True, id="starts that ask"),
    ],
)
@pytest.mark.parametrize(
    ("first", "last"), [(0, 10), *(pytest.param(at, at + 100, marks=pytest.mark.slow) for at in (10, 110))]
)
def test_histories_of_tenants_that_close_their_groups_break_no_law(
    first: int, last: int, *, with_two: bool, wraps: bool
) -> None:
    for seed in range(first, last):
        history(seed, with_hand=True, shuts=True, with_two=with_two, wraps=wraps)


@pytest.mark.parametrize(
    ("seed", "with_two"),
    [
        pytest.param(101000033, False, id="a write that fails after its group slipped, and again"),
        pytest.param(101001267, False, id="a write that was done before its group slipped, and is told first"),
        pytest.param(101001009, False, id="a slip that is told before the first look"),
        pytest.param(101002102, False, id="a first look that is older than a slip"),
        pytest.param(101002279, False, id="one that slipped, and has no answer of its own any more"),
        pytest.param(104000261, False, id="one that slipped, was let go, and is written then"),
        pytest.param(101004324, True, id="one that slips while its engine is away"),
    ],
)
def test_rare_histories_of_such_tenants_break_no_law(seed: int, *, with_two: bool) -> None:
    """Each of these broke one once."""
    history(seed, with_hand=True, shuts=True, with_two=with_two)


@pytest.mark.slow
def test_a_long_run_meets_groups_that_slip_often_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law proves nothing about events that hardly occur."""
    met: Counter[str] = Counter()
    feed = HandReality.feed

    def counted(self: HandReality, *facts: object) -> None:
        world = self.world
        for fact in facts:
            if isinstance(fact, Slipped):
                known = world.containers.get(fact.container)
                met["known" if known else "unknown"] += 1
                met["owners"] += fact.container in world.state.assignments
                met["shared"] += known is not None and fact.container not in world.state.assignments
                met[type(known.grip).__name__ if known else ""] += 1
        feed(self, *facts)  # type: ignore[arg-type]

    monkeypatch.setattr(HandReality, "feed", counted)
    for seed in range(300):
        if is_shutting(seed):
            history(seed, with_hand=True, shuts=True)
    assert min(met[kind] for kind in ("known", "unknown", "owners", "shared")) > 10
    assert min(met[grip] for grip in ("Loose", "Writing", "Guarded", "Closed")) > 5


@pytest.mark.slow
@pytest.mark.parametrize("fault", slip_faults.FAULTS, ids=[fault.name for fault in slip_faults.FAULTS])
def test_a_daemon_with_one_broken_rule_about_slips_is_caught(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """In some history that law is broken before any other."""
    fault.plant(monkeypatch)
    assert fault.caught(BEGUN_WITH, with_hand=True) is not None
