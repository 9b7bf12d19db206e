"""Which change of the State may be saved later: most containers come and go without an order to the engine.

What the State remembers of such a container is what any look shows again. So it needs no disk as long as the engine's
record of it waits, and nothing else shows of it than what is remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sidecar.decide.container.originals import originals_of
from sidecar.decide.moves.plain import awaits_record
from sidecar.decide.orders import HoldAnswers, LookAgain, Order, StartTimer, WriteCpuset
from sidecar.decide.world import World
from state.model import State

_NEEDS_NO_BOOKS: Final = (HoldAnswers, WriteCpuset, LookAgain, StartTimer)
"""Orders that change nothing of which only the State would know: none of them reaches the engine."""


def may_be_saved_later(saved: State, world: World, orders: Sequence[Order]) -> bool:
    """Return whether the State differs from the saved one only by the originals of containers that came or went, and
    none of these orders depends on it.
    """
    if not all(isinstance(order, _NEEDS_NO_BOOKS) for order in orders):
        return False
    before, now = saved.originals, world.state.originals
    for key in before.keys() | now.keys():
        known = world.containers.get(key)
        if key not in now:
            is_shown = known is None
        elif key in before:
            is_shown = now[key] == before[key]
        else:
            is_shown = known is not None and awaits_record(world, known) and originals_of(known.view) == now[key]
        if not is_shown:
            return False
    return msgspec.structs.replace(world.state, originals=before) == saved
