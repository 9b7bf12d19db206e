"""The laws hold where a runtime that asks stands before the engine's own: most starts are held, some go around."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from sidecar.decide.container import start_machine
from sidecar.decide.container.start import Asks, Held
from sidecar.decide.moves import starts, starts_from_books
from tests.decide.lawbook import laws
from tests.decide.long_run import history
from tests.support.decide.histories import Broken
from tests.support.decide.reality import Reality
from tests.support.laws import Law

SEARCHED = 300
"""Histories in which a planted fault shows itself."""


@pytest.mark.parametrize(
    ("first", "last", "with_hand"),
    [(0, 60, False), (0, 10, True), pytest.param(60, 400, False, marks=pytest.mark.slow)],
)
def test_histories_with_a_front_before_the_usual_runtime_break_no_law(first: int, last: int, with_hand: bool) -> None:
    """Containers that did not choose it ask, are refused nothing but what they want refused, or start unseen."""
    for seed in range(first, last):
        history(seed, with_hand=with_hand, wraps=True)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(95010103, id="an order that was sent while a start was held, of one that does not ask again"),
        pytest.param(96221122, id="a start for the pool beside that of an owner, which goes there for a pin"),
        pytest.param(96220810, id="a ceiling that comes to no whole cores, and sinks into an original core"),
        pytest.param(96220945, id="half of an original core, and one that is whole again"),
        pytest.param(96221068, id="a pin inside the group, which the group does not have"),
    ],
)
def test_rare_histories_with_a_front_and_a_hand_break_no_law(seed: int) -> None:
    """Each of these broke one once."""
    history(seed, with_hand=True, wraps=True)


def test_an_owner_that_starts_in_the_pool_is_in_the_way_there() -> None:
    """One is pinned onto all that it has, and another owner moves to the CPU that the pool had."""
    history(96021233, with_hand=True, wraps=True)


def test_these_histories_hold_usual_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law proves nothing about what does not occur."""
    seen: Counter[str] = Counter()
    feed = Reality.feed

    def counted(self: Reality, *args: object) -> None:
        feed(self, *args)  # type: ignore[arg-type]
        for each in self.world.containers.values():
            seen["held"] += isinstance(each.start, Held) and each.start.is_usual
        for answer in self.new_answers:
            real = self.containers.get(answer.container)
            seen["answered"] += answer.update is not None and real is not None and not real.asks

    monkeypatch.setattr(Reality, "feed", counted)
    for seed in range(45):
        history(seed, wraps=True)
    assert seen["held"] > 20
    assert seen["answered"] > 20


def never_starts_unseen_again(patch: pytest.MonkeyPatch) -> None:
    """Take a container that asked once for one that always asks: its runtime may be unwrapped since."""
    patch.setattr(start_machine, "_next", lambda _: Asks())


def shares_with_whom_it_should_stop(patch: pytest.MonkeyPatch) -> None:
    """Start a container in the pool that asked to be stopped on a shortage."""
    patch.setattr(starts, "may_share", lambda _: True)
    patch.setattr(starts_from_books, "may_share", lambda _: True)


@pytest.mark.parametrize(
    ("plant", "law"),
    [(never_starts_unseen_again, laws.FOOTPRINTS), (shares_with_whom_it_should_stop, laws.ANSWERS)],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_daemon_with_one_broken_rule_is_caught_by_its_law(
    plant: Callable[[pytest.MonkeyPatch], None], law: Law[Reality], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(SEARCHED):
        try:
            history(seed, wraps=True)
        except Broken as broken:
            if law in broken.laws:
                return
    pytest.fail("no law noticed")
