"""What happens to the hand in a history, by the temper of that history: each reaches other corners.

- **Steady**: orders to the hand are carried out late, and reported later still.
- **Prompt**: the hand is done at once, as it mostly is; the engine's records then lag behind the kernel.
- **Weak**: many groups cannot be written, some of them never.
- **Restless**: the hand is lost and comes back again and again, and containers start meanwhile. The engine may go away
  before a new hand holds its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.support.decide.handreality import HandReality, Temper

_MOST_AT_ONCE: Final = 60
"""Orders and reports: more than a daemon that works has at a time."""

_Verb = Callable[[HandReality, int], object]


def _act(reality: HandReality, how: int) -> None:
    reality.act(fails=how % 9 == 0)


def _fail(reality: HandReality, how: int) -> None:
    reality.act(fails=how % 2 == 0)


def _lose(reality: HandReality, how: int) -> None:
    if how % 6 == 0:
        reality.lose_hand()


def _hear(reality: HandReality, _: int) -> None:
    reality.hear()


def _unstick(reality: HandReality, _: int) -> None:
    reality.unstick()


def _begin(reality: HandReality, _: int) -> None:
    reality.begin_hand()


def _begin_as_the_engine_leaves(reality: HandReality, how: int) -> None:
    """Lose the hand and open a new one; the engine is away before that is given its answers, or holds them."""
    reality.lose_hand()
    while reality.hear():
        pass
    reality.begin_hand()
    if how % 3:
        reality.hear()
    reality.disconnect()


def _settle(reality: HandReality, how: int) -> None:
    """Let the hand do, and report, all that it is ordered, unless that never ends."""
    for _ in range(_MOST_AT_ONCE):
        if not reality.hear() and not reality.act(fails=how % 9 == 0):
            return


_VERBS: Final[Mapping[Temper, tuple[_Verb, ...]]] = {
    Temper.STEADY: (*[_act] * 5, *[_hear] * 5, _unstick, _lose, *[_begin] * 2),
    Temper.PROMPT: (*[_settle] * 9, _act, _hear, _unstick, _lose, _begin),
    Temper.WEAK: (*[_fail] * 4, *[_hear] * 4, *[_settle] * 2, *[_unstick] * 2, _lose, _begin),
    Temper.RESTLESS: (
        *[_act] * 2,
        *[_hear] * 2,
        *[_settle] * 2,
        *[lambda r, _: r.lose_hand()] * 2,
        *[_begin] * 5,
        _begin_as_the_engine_leaves,
    ),
}


def temper_of(ops: Sequence[tuple[int, int, int]]) -> Temper:
    """Return the temper of a history: its first number tells."""
    return list(Temper)[ops[0][2] % len(Temper)] if ops else Temper.STEADY


def happen(reality: HandReality, what: int, how: int) -> None:
    """Let something happen to the hand."""
    verbs = _VERBS[reality.temper]
    verbs[what % len(verbs)](reality, how)


def follow(reality: HandReality, how: int) -> None:
    """Let a prompt hand do what anything else has led to."""
    if reality.temper is Temper.PROMPT and how % 4:
        _settle(reality, how)
