"""Release: restoring the original CPUs of each container when the sidecar stops managing the host."""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.container.place import cpus_of
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet


def start_releasing(world: World) -> World:
    """Return the world without grants and refusals, in which the original settings are being restored."""
    state = replace(world.state, assignments={}, refusals={}, vacancies={})
    return replace(world, state=state, is_releasing=True)


def released_to(world: World, container: Container) -> CPUSet | None:
    """Return a container's original cpuset, all online CPUs if it had none; None if it was never changed.

    An engine cannot clear a cpuset, so an empty one is restored as a list of all CPUs.
    """
    originals = world.state.originals.get(container.view.key)
    if originals is None:
        return None
    online = world.state.online
    return (cpus_of(originals.cpuset, online) & online) or online
