"""The law of a list that rests (decision 0053): inventories go without one meanwhile, and whatever is known is decided,
ordered and settled all the same.

Nothing shows then which containers are gone without news, or came without. Those that are gone keep what they had, and
others wait for them; those that came are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidecar.decide.moves.settled import desired
from sidecar.projection.projection_of import projection_of
from state.cpuset import EMPTY, CPUSet, union
from tests.support.decide.reality import Reality
from tests.support.laws import Law, When


def held_up(reality: Reality) -> Iterator[str]:
    """Yield known containers that are not where they should be, or not settled there, or wait for an answer to their
    start, though none is in the way that is gone.
    """
    world = reality.world
    gone = union(
        CPUSet.from_mask(each.footprint) for key, each in world.containers.items() if key not in reality.containers
    )
    for key, container in world.containers.items():
        real = reality.containers.get(key)
        if real is None:
            continue
        if real.held and not gone:
            yield f"the start of {real.name} was not answered"
        wanted = desired(world, container)
        if wanted is None or not real.phase.is_live or wanted & gone or real.is_tampered:
            # What another user changed since the last look shows with the next one.
            continue
        if wanted - (real.effective or EMPTY):
            yield f"{real.name} should run on {wanted} and runs on {real.effective}"
        if key in world.state.assignments and not projection_of(world, container).settled:
            yield f"{real.name} did not settle on {wanted}"


NOT_HELD_UP: Final = Law("a list that rests holds up nothing that is known", held_up, When.UNLISTED)

LAWS: Final = (NOT_HELD_UP,)
