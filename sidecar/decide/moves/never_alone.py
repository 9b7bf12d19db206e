"""Whether a container that is not alone can still become so by itself, or never as it is. Pure."""

from __future__ import annotations

from sidecar.decide.container.askers import is_coming, is_waiting
from sidecar.decide.container.container import Container
from sidecar.decide.moves.alone import is_never_moved
from sidecar.decide.world import World
from state.refusal import RefusalCode


def is_never_alone(world: World, container: Container) -> bool:
    """Return whether a container gets no CPUs of its own unless its labels, the settings, or its start change.

    1. It has a grant: what is missing comes.
    2. It is left alone, or pinned by hand, or asks for nothing, or its request has a mistake: never. What it asks
       for is not known before its engine has shown its labels.
    3. It was not answered yet, or is to be answered again when the engine is back: settings and machine may change
       meanwhile.
    4. It was refused: never, unless it waits for CPUs or for its place, or is stopped and asks when it starts.
    """
    key = container.view.key
    # 1.
    if key in world.state.assignments:
        return False
    # 2.
    if is_never_moved(container) or (container.wish.demand is None and not container.is_unread):
        return True
    # 3.
    refused = world.state.refusals.get(key)
    if refused is None or world.is_absent(key):
        return False
    # 4.
    awaits_place = refused.refusal.code is RefusalCode.AWAITS_PLACE
    return is_coming(container) and not awaits_place and not is_waiting(container, refused)
