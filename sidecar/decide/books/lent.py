"""Lent CPUs: what is granted, and stays in the shared pool until others have left the CPUs that replace it there.

The State has at once what is to be. Of a pool that gives up a CPU and gets another one, a container may still be
leaving that other one, for the whole of its notice. What the pool keeps (`room`) it keeps in force. So:

1. CPUs that were in the pool in force, and are granted now, are lent to it as far as it has less than it must keep
   without those that are being left, or that a container of the pool cannot enter yet because an owner may be there.
   Nothing else is lent: what an owner has is its own, and what one was granted and lost in one decision, another one's
   now, is not in force while that one leaves it. Reserved CPUs that are all being left are not waited for: the one that
   leaves them may be parked there, until it gets what would be lent (`State.refuge`).
2. CPUs that every container of the pool has, or may enter, are lent first: another is of no use to those not on it. Of
   these, CPUs above the floor of their owner are lent first, those of the newest grants first. If they do not suffice,
   each container of the pool keeps as many of those that it has or may enter as the pool keeps.
3. Containers without a grant stay on lent CPUs and enter them, and owners do neither (`State.vacated`, `moves/target`).
   Nothing is lent any more once the pool has enough without: each step decides that from the beginning.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.room import Room, room_in
from sidecar.decide.container.container import Standing
from sidecar.decide.container.footprint import Reach
from sidecar.decide.following import before_what_follows
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet, union
from state.model import State


def with_lent(before: State, world: World) -> World:
    """Return the world whose State has the CPUs that the shared pool keeps as yet. `before` is the State before."""
    lent = _lent(before, world)
    return world if lent == world.state.lent else replace(world, state=replace(world.state, lent=lent))


def _lent(before: State, world: World) -> CPUSet:
    state = world.state
    if world.is_releasing or world.settings.policy is PolicyName.NONE:
        return EMPTY
    # 1. What it had, and has not yet given up.
    was_shared = (before.vacated - state.isolated - state.leaving) & state.exclusive
    if not world.is_ready:
        # Who waits for what is not known yet: what is lent stays, and the books alone tell what more is needed.
        kept, room = before.lent & state.exclusive, room_in(world, state)
        now = (_in_pool(state, room) - state.leaving) | kept
        return (kept | room.missing_from(now, _in_turn(state, was_shared - kept))) if state.leaving else kept
    if not was_shared:
        return EMPTY
    room, waited_for = room_in(world, state), _waited_for(world)
    pool = _in_pool(state, room)
    reached = before_what_follows(world) if waited_for else world.reach
    closed = closed_to_some(world, reached)
    away = state.leaving | (closed & state.shared)
    lent = EMPTY
    if away:
        lent = room.missing_from(pool - away, _in_turn(state, was_shared, closed))
        lent = _with_what_each_keeps(world, room, lent, was_shared, reached)
    if waited_for and (behind := (closed_to_some(world, world.reach) & state.shared) - away):
        # A start would wait for what is lent because of what may follow that very start.
        others = _in_turn(state, was_shared - waited_for - lent, closed)
        lent |= room.missing_from((pool - away - behind) | lent, others)
    return lent


def _with_what_each_keeps(world: World, room: Room, lent: CPUSet, was_shared: CPUSet, reached: Reach) -> CPUSet:
    """Return what is lent, and what else each container of the pool keeps of the CPUs that it has or may enter."""
    state, closed = world.state, closed_to_some(world, reached)
    for mask in _closed_to_each(world, reached):
        shut = CPUSet.from_mask(mask)
        now = (_in_pool(state, room) - state.leaving | lent) - shut
        lent |= room.filling(now, _in_turn(state, was_shared - shut, closed))
    return lent


def _in_pool(state: State, room: Room) -> CPUSet:
    """Return what is in the pool now, if others have left it: CPUs that are kept for a successor as well, until that
    comes.
    """
    return room.shared | ((state.vacant & state.shared) - (state.reserved if state.strict else EMPTY))


def _waited_for(world: World) -> CPUSet:
    """Return what is granted to containers whose start is held, if an order may follow it."""
    grants, known = world.state.assignments, world.containers
    return union(each.cpus for key, each in grants.items() if (container := known.get(key)) and container.is_followed)


def closed_to_some(world: World, reached: Reach) -> CPUSet:
    """Return the CPUs that a running container of the shared pool is not on, and cannot enter: an owner may be there,
    also one that never owned them, by this reach. Reserved CPUs may always be entered.
    """
    closed = 0
    for mask in _closed_to_each(world, reached):
        closed |= mask
    return CPUSet.from_mask(closed)


def _closed_to_each(world: World, reached: Reach) -> Iterator[int]:
    """Yield for each running container of the shared pool the CPUs that are closed to it, as a mask."""
    state = world.state
    owned = reached.exclusive & ~state.reserved.mask
    for key, container in world.containers.items():
        if container.wish.standing is Standing.MANAGED and key not in state.assignments and not container.is_idle:
            yield owned & ~container.present.mask


def _in_turn(state: State, cpus: CPUSet, closed: CPUSet = EMPTY) -> Iterator[int]:
    """Yield these granted CPUs in the order in which they are lent (2)."""
    newest_first = tuple(reversed(state.by_age))
    for some in (cpus - closed, cpus & closed):
        for each in newest_first:
            yield from reversed(list((each.cpus - each.original) & some))
        for each in newest_first:
            yield from reversed(list(each.original & some))
