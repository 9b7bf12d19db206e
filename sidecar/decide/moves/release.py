"""Giving everything back: where each container goes when the sidecar leaves for good."""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.container.place import cpus_of
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet


def start_releasing(world: World) -> World:
    """The world in which nobody holds anything any more, and everybody is on the way back."""
    state = replace(world.state, assignments={}, refusals={})
    return replace(world, state=state, is_releasing=True)


def released_to(world: World, container: Container) -> CPUSet | None:
    """A container's original cpuset, all online CPUs where it had none; None where it was never changed.

    An engine cannot clear a cpuset: all CPUs, written out, is what "none" can be restored to.
    """
    originals = world.state.originals.get(container.view.key)
    if originals is None:
        return None
    online = world.state.online
    return (cpus_of(originals.cpuset, online) & online) or online
