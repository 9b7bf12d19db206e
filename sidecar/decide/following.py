"""Before what follows: where containers may be before a start is answered behind which an order waits in the engine.

Such an order takes effect after the start. So what it may bring is in the way of no answer, its own or another one, and
of nothing that an answer waits for: each would wait for the other.
"""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.container.footprint import Reach
from sidecar.decide.world import World


def before_what_follows(world: World) -> Reach:
    """Return where containers may be before any start is answered behind which an order waits in the engine."""
    return world.reach_by(lambda each: each.coming_by_hand if each.is_followed else world.counted(each))


def footprint_before_what_follows(container: Container) -> int:
    """Return where a container may be before its start is answered, if an order waits in the engine behind that; as a
    mask. Of others, return the footprint.
    """
    return container.coming_by_hand if container.is_followed else container.footprint
