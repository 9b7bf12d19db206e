"""Clashes: CPUs that one container was granted, and to which another is pinned by hand, running or not.

The owner moves where it can (`pinned`). Where it cannot, both stay and share these CPUs, which people are told of: the
owner was there first. But what a grant gained before all containers were looked at, since the start of the sidecar or
since an engine was away, it may not have beside the other.
"""

from __future__ import annotations

import msgspec

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet, union
from state.model import Assignment, Refused, State
from state.refusal import Refusal, RefusalCode, Taken


class Clash(msgspec.Struct, frozen=True):
    """A container with a grant, and another that is pinned by hand to these of its CPUs, and may run there."""

    owner: Assignment
    pinned: Container
    cpus: CPUSet


def clashes(world: World) -> tuple[Clash, ...]:
    """Return each clash, in the order of the grants, then by the name of the pinned container."""
    if world.strangers.isdisjoint(world.state.exclusive):
        return ()
    owners = sorted(world.state.assignments.values(), key=lambda each: each.since)
    return tuple(clash for owner in owners for clash in clashes_of(world, owner))


def clashes_of(world: World, owner: Assignment) -> tuple[Clash, ...]:
    """Return the clashes of one grant. Where the kernel lets a container run whose own CPUs went offline, it is not
    pinned, also while the one was seen and the other was not: it is a neighbour there, and no clash. Nor is one that
    the sidecar moved, and that makes way.
    """
    if world.strangers.isdisjoint(owner.cpus):
        return ()
    strangers = (each for each in world.containers.values() if each.wish.standing is Standing.STRANGER)
    pinned = [each for each in strangers if world.has_pin_online(each) and not world.is_displaced(each)]
    pinned.sort(key=lambda each: (each.view.name, each.view.id))
    found = ((each, owner.cpus.mask & each.place.configured.mask & world.may_run(each)) for each in pinned)
    return tuple(Clash(owner, each, CPUSet.from_mask(mask)) for each, mask in found if mask)


def without_unaware_grants(world: World, state: State) -> State:
    """Return the State without grants that gained CPUs before all containers were looked at, unaware of one that is
    pinned there, and that could not move: they are refused. Usually the same State. While an engine is not ready, what
    is gained is noted.
    """
    if not world.sees_all and world.settings.policy is not PolicyName.NONE:
        had = world.state.assignments
        gained = union(each.cpus - (had[key].cpus if key in had else EMPTY) for key, each in state.assignments.items())
        return replace(state, unlooked=state.unlooked | gained) if gained - state.unlooked else state
    if not state.unlooked or world.settings.policy is PolicyName.NONE:
        return state
    for clash in clashes(replace(world, state=state)):
        grant = state.assignments.get(clash.owner.container)
        if grant is not None and (taken := clash.cpus & state.unlooked):
            refusal = Refusal(RefusalCode.CPUS_LOST, Taken(taken))
            state = state.refused(
                Refused(container=grant.container, name=grant.name, refusal=refusal, demand=grant.demand)
            )
    return replace(state, unlooked=EMPTY)
