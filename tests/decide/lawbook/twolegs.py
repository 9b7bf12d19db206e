"""Stops between the two legs of an order: the daemon is killed there, and books, kernel and engine agree afterwards.

Each stop brings itself about, in the middle of a random history, as soon as it can. What the daemon was not told is
lost with it. The next daemon has the checkpoint, the kernel and the engine, which may all three differ.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from sidecar.decide.orders import HoldAnswers, WriteCpuset
from sidecar.decide.settings import Settings
from tests.support.decide.handreality import HandReality
from tests.support.decide.histories import BEGUN_WITH, MACHINES, begun, going_on, random_history, rest

Stop = Callable[[HandReality], bool]
"""Brings a stop about; returns whether the host is there now."""


def written_but_not_recorded(reality: HandReality) -> bool:
    """Stop after the hand wrote a container: the daemon does not know it, and the engine has other CPUs."""
    return _acted(reality, WriteCpuset)


def recorded_but_not_confirmed(reality: HandReality) -> bool:
    """Stop after the engine took what the hand wrote before: its answer never comes."""
    for index, order in enumerate(reality.flight):
        container = reality.world.containers.get(order.container)
        if container is not None and container.is_by_hand:
            reality.land(index)
            return order.number in reality.landed
    return False


def answers_sent_but_not_held(reality: HandReality) -> bool:
    """Stop before the hand takes the answers that it was sent."""
    return bool(reality.pulls) and all(isinstance(order, HoldAnswers) for order in reality.pulls)


def answers_held_but_not_confirmed(reality: HandReality) -> bool:
    """Stop after the hand took new answers, and moved newborns by them: the daemon does not know it."""
    return _acted(reality, HoldAnswers)


def _acted(reality: HandReality, kind: type[HoldAnswers | WriteCpuset]) -> bool:
    while reality.hand and any(isinstance(order, kind) for order in reality.pulls):
        is_it = isinstance(reality.pulls[0], kind)
        reality.act()
        if is_it:
            return True
    return False


STOPS: Final[Sequence[Stop]] = (
    written_but_not_recorded,
    recorded_but_not_confirmed,
    answers_sent_but_not_held,
    answers_held_but_not_confirmed,
)


def killed_at(stop: Stop, seed: int, settings: Sequence[Settings] = BEGUN_WITH) -> bool:
    """Kill the daemon at this stop, somewhere in the history of this seed, and let everything come to rest. Raise
    Broken if a law is broken then. Return whether the history has the stop.
    """
    rng = random.Random(seed)
    machine, begun_with = rng.choice(MACHINES), rng.choice(settings)
    ops = random_history(rng, 240)
    reality = begun(machine, begun_with, ops, 0, with_hand=True)
    assert isinstance(reality, HandReality)
    earliest = rng.randrange(len(ops))
    for index, op in enumerate(ops):
        going_on(reality, op)
        if index >= earliest and reality.world.is_ready and stop(reality):
            # The orders that were not carried out are lost. The hand may be open before the engine is reached, or not.
            reality.pulls.clear()
            reality.crash([bool(seed % 2), True])
            rest(reality)
            return True
    return False
