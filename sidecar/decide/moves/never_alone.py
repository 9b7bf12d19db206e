"""Whether a container that is not alone can still become so by itself, or never as it is. Pure."""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.moves.alone import is_never_moved
from sidecar.decide.world import World
from state.model import Shortage


def is_never_alone(world: World, container: Container) -> bool:
    """Return whether a container gets no CPUs of its own unless its labels, the settings, or its start change.

    1. It has a grant: what is missing comes.
    2. It is left alone, or pinned by hand, or asks for nothing, or its request has a mistake: never.
    3. It was not answered yet, waits for CPUs, or does not run yet and is asked again when it starts: not never.
    4. It runs, and was refused for good.
    """
    key, demand = container.view.key, container.wish.demand
    # 1.
    if key in world.state.assignments:
        return False
    # 2.
    if is_never_moved(container) or demand is None:
        return True
    # 3. and 4.
    return key in world.state.refusals and demand.shortage is not Shortage.WAIT and not container.is_idle
