"""Whether a container has its CPUs to itself, and which others may run there.

*Settled* says that what was decided is in force. *Alone* says more: the container has CPUs of its own, they are in
force, and nothing that the sidecar can see may run on them (`World.may_run`). Every known container counts, managed or
not. What no look has shown does not count: processes of the host, containers of other engines, and a container that is
just being created, but for one that is born inside its own group (`insiders`). Where containers start without the
engine's service, none is alone while that is away, unless a hand answers births (`World.is_blind`). Nor is any before
the units of the host are known that are to be confined.
"""

from __future__ import annotations

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.insiders import insiders_of
from sidecar.decide.moves.settled import is_left_alone, is_settled
from sidecar.decide.world import World
from sidecar.natural_order import natural
from state.cpuset import CPUSet
from state.key import ContainerKey


def is_alone(world: World, container: Container) -> bool:
    """Return whether a container has a grant that is in force, and no other known container may run on its CPUs."""
    if is_left_alone(world, container) or world.is_blind or not world.sources.are_seen:
        return False
    return is_settled(world, container) and not has_company(world, container)


def has_company(world: World, container: Container) -> bool:
    """Return whether others may run where a container may run, for all that is known."""
    is_crowded = world.company.others(container.footprint) & container.footprint
    return bool(is_crowded or insiders_of(world, container.view.key))


def neighbours(world: World, container: Container) -> tuple[Container, ...]:
    """Return the other containers that may run where a container with a grant runs: those that the sidecar never moves
    first, then by name. Empty without a grant, or if it runs no process.

    1. What is placed may run on all of its footprint: if two may run nowhere there, no other one may.
    2. Otherwise each is asked.
    """
    key = container.view.key
    if key not in world.state.assignments or container.is_idle:
        return ()
    # 1. For all of them at once: an owner is mostly alone, and each would ask all others.
    within = insiders_of(world, key)
    if container.wish.standing is Standing.MANAGED and not within and not world.company.crowded & container.footprint:
        return ()
    # 2. One by one.
    others = (other for at, other in world.containers.items() if at != key)
    found = [each for each in others if common(world, container, each)]
    return tuple(sorted(found, key=lambda each: (not is_never_moved(each), natural(each.view.name), each.view.id)))


def common(world: World, container: Container, other: Container) -> CPUSet:
    """Return the CPUs of a container on which another may run: not those that went offline since they were last looked
    at, where nothing runs. What was born inside its group, and not looked at since, may run on all of them.
    """
    here = container.footprint & world.state.online.mask
    is_inside = other.view.key in insiders_of(world, container.view.key)
    return CPUSet.from_mask(here if is_inside else world.may_run(other) & here)


def unknown_insiders(world: World, container: Container) -> tuple[ContainerKey, ...]:
    """Return what was born inside a container's group, and is not known yet. Empty without a grant."""
    if container.view.key not in world.state.assignments:
        return ()
    return tuple(each for each in insiders_of(world, container.view.key) if each not in world.containers)


def is_never_moved(container: Container) -> bool:
    """Return whether the sidecar never moves it, so that it stays where it is for as long as it runs."""
    return container.wish.standing in (Standing.STRANGER, Standing.UNMANAGED)
