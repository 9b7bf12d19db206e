"""Which change of the State may be saved later, and which orders wait for none: what any look shows again.

1. Most containers come and go without an order to the engine. What the State remembers of such a container is what any
   look shows again. So it needs no disk as long as the engine's record of it waits, and nothing else shows of it than
   what is remembered.
2. The rest of a container that runs again, or is about to, is over, as any look shows. Books in which it is not over
   are about an earlier run: the next rest is another one.
3. A start is answered by what is decided already: the grant, if there is one, and the originals. Where the saved books
   have these, the runtime need not wait for the disk: the next run of the daemon expects such a container anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sidecar.decide.container.originals import originals_of
from sidecar.decide.moves.records import awaits_record
from sidecar.decide.orders import AnswerStart, HoldAnswers, LookAgain, Order, StartTimer, WriteCpuset
from sidecar.decide.world import World
from state.model import Assignment, State

_NEEDS_NO_BOOKS: Final = (HoldAnswers, WriteCpuset, LookAgain, StartTimer)


def needs_books(order: Order, saved: State, world: World) -> bool:
    """Return whether an order changes something of which only the State would know: in the engine, or for people.
    `saved` differs from the State of this world only as what may be saved later does.
    """
    if isinstance(order, AnswerStart):
        # 3.
        own = world.state.originals.get(order.container)
        return own is None or saved.originals.get(order.container) != own
    return not isinstance(order, _NEEDS_NO_BOOKS)


def may_be_saved_later(saved: State, world: World, orders: Sequence[Order] = ()) -> bool:
    """Return whether the State differs from the saved one only by the originals of containers that came or went (1),
    and by rests that are over (2), and none of these orders depends on it.
    """
    if any(needs_books(order, saved, world) for order in orders):
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
    grants = {key: _with_rest(saved, world, grant) for key, grant in world.state.assignments.items()}
    return msgspec.structs.replace(world.state, originals=before, assignments=grants) == saved


def _with_rest(saved: State, world: World, grant: Assignment) -> Assignment:
    """Return a grant with its last saved rest, if that is over because its container runs, or is about to."""
    before, known = saved.assignments.get(grant.container), world.containers.get(grant.container)
    if before is None or known is None or grant.rest is not None:
        return grant
    runs = known.view.phase.is_live and not known.view.is_glance
    is_over = runs or known.is_held or known.is_starting
    return msgspec.structs.replace(grant, rest=before.rest) if is_over else grant
