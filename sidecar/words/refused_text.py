"""Why a container was refused, as people read it now: what has the CPUs since that its refusal counts as free. Pure.

A refusal is of its moment. Under `dynamic` it counts others at their floors, and these may grow in the same decision;
what is not asked again until its next start is passed by others.
"""

from __future__ import annotations

from sidecar.decide.books.grants import counted_free
from sidecar.decide.books.room import room_in
from sidecar.decide.world import World
from sidecar.natural_order import natural
from sidecar.words.counts import agree, named, some
from sidecar.words.neighbour_names import SHOWN
from sidecar.words.refusals import sentence
from state.model import Refused
from state.refusal import Asked, PoolEmptied


def why_refused(world: World, refused: Refused) -> str:
    """Return why a container was refused, and which of the CPUs counted as free others have now, as a clause."""
    said, detail = sentence(refused.refusal), refused.refusal.detail
    if not isinstance(detail, Asked) or detail.is_of_the_machine:
        return said
    if isinstance(detail, PoolEmptied):
        shared = len(room_in(world, world.state).shared)
        return f"{said}; {shared} {agree(shared, 'is', 'are')} shared now" if shared < detail.shared else said
    taken = counted_free(detail, world.state) & world.state.exclusive
    if not taken:
        return said
    names = sorted((each.name for each in world.state.assignments.values() if each.cpus & taken), key=natural)
    return f"{said}; {some(names[:SHOWN], of=len(names))} {agree(len(names), 'has', 'have')} {named(taken)} now"
