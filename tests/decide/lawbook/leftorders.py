"""Histories in which a daemon is killed with an order in the engine, which lands when the next one is at work.

The promise (decision 0011): what a killed daemon may have left in the engine for a container is a doubt until the
engine shows that it is over. The order waits behind whatever holds the container's lock: its next start, if its
runtime asks first, or anything else. Every law holds meanwhile, at each step.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from sidecar.decide.settings import Settings
from tests.support.decide.histories import BEGUN_WITH, MACHINES, begun, check, going_on, random_history, rest
from tests.support.decide.reality import Reality
from tests.support.laws import When


def killed_with_an_order(seed: int, settings: Sequence[Settings] = BEGUN_WITH, *, with_hand: bool = False) -> bool:
    """Play the history of this seed, and kill the daemon somewhere, as soon as it has an order in the engine that can
    be left there; every second time one to a container whose runtime asks. Raise Broken if a law is broken. Return
    whether the history has that.
    """
    rng = random.Random(seed)
    machine, begun_with = rng.choice(MACHINES), rng.choice(settings)
    ops = random_history(rng, 240 if with_hand else 120)
    reality = begun(machine, begun_with, ops, 0, with_hand=with_hand)
    earliest, is_killed = rng.randrange(len(ops)), False
    for index, op in enumerate(ops):
        going_on(reality, op)
        if index >= earliest and not is_killed and _is_leaving(reality, is_strict=seed % 2 == 0):
            reality.crash([True], is_busy=True)
            is_killed = True
        check(reality, When.STEP)
    rest(reality)
    return is_killed


def _is_leaving(reality: Reality, *, is_strict: bool) -> bool:
    """Return whether the daemon has an order in the engine that has not been carried out."""
    waiting = [
        reality.containers.get(order.container) for order in reality.flight if order.number not in reality.landed
    ]
    return reality.world.is_ready and any(
        real is not None and real.asks is is_strict and not real.is_locked and real is not reality.group
        for real in waiting
    )
