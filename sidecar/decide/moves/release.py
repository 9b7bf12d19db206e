"""Release: restoring the original CPUs of each container when the sidecar stops managing the host; of one that leaves
management; and of one that is pinned by hand, and was moved only as long as it asked for CPUs (a rule of the
configuration was taken away).

One that is kept out from now on stays in the shared pool as long as it runs. It is put back while it rests, and its
originals are forgotten: then it has left.

One that is pinned by hand goes back, to all of its CPUs at once, when no other container holds any of them exclusively;
it stays where it is until then. Its CPUs are granted to no container, and grants leave them as for any pin
(`books/pinned`). When it has all of its own back, its originals are forgotten, and it is never moved again.
"""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.container.place import cpus_of
from sidecar.decide.container.pods import confinement
from sidecar.decide.facts import ContainerView
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet


def start_releasing(world: World) -> World:
    """Return the world without grants and refusals, in which the original settings are being restored."""
    state = replace(world.state, assignments={}, refusals={}, vacancies={})
    return replace(world, state=state, is_releasing=True)


def way_home(world: World, container: Container) -> CPUSet | None:
    """Return where a container that is pinned by hand should go now: back to its own CPUs, not in parts, or into the
    shared pool as long as others have any of them; None if it is not displaced.
    """
    if not world.is_displaced(container):
        return None
    home = world.home_of(container)
    # An owner that leaves at once holds them until its footprint shows that it left.
    held = world.state.exclusive.mask | world.state.leaving.mask | world.reach.exclusive
    return home if home and not home.mask & held & ~world.state.reserved.mask else world.state.vacated


def way_out(world: World, container: Container) -> CPUSet | None:
    """Return where a container that leaves management is put back while it rests; None if it has left, or never was
    in.
    """
    return released_to(world, container) if container.wish.is_kept_out and container.is_idle else None


def released_to(world: World, container: Container) -> CPUSet | None:
    """Return a container's original cpuset, as far as that is online; None if it was never changed."""
    originals = world.state.originals.get(container.view.key)
    if originals is None:
        return None
    return original_cpus(container.view, originals.cpuset, world.state.online)


def original_cpus(view: ContainerView, cpuset: str, online: CPUSet) -> CPUSet:
    """Return the online CPUs of a container that had this cpuset; all that its pod has if it had none.

    An engine cannot clear a cpuset, so an empty one is restored as a list of all CPUs. A pod may have a cpuset of its
    own, and its group may have been widened since: so none of its containers gets more than that.
    """
    had = confinement(view, online)
    return (cpus_of(cpuset, had) & had) or had
