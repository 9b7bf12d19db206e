"""Containers that are *wrested* from the hand: another program writes their cpusets, and the hand does not surely win.

1. One whose cpuset is written more often than is surely undone, or where what was written stands for a part of the time
   that counts. It may be anywhere while it runs, until it has been calm for a while (`World.may_run`): no other is
   alone beside it, and all stay settled.
2. One that has slipped: the owner or the mode of its files was changed, so that the hand cannot write it any more. It
   is wrested as well: a look shows where it is, and not where the next write puts it. Nothing undoes that write at
   once, so from each news of one until a look that began later, it may be anywhere for all: none is settled beside it.
   The engine moves it, as any container whose cgroup the hand cannot write.
3. One that is not known yet counts as well, once it is: it may close its group before its first look is over. So what
   is told of one is kept until it is calm, and longer than the container; and its first look shows nothing if it is
   older. One that has an answer of its own, as while its engine is away, may be anywhere until that look: of all others
   the hand tells where they are stuck.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.container.machine import after
from sidecar.decide.container.news import SlipTold
from sidecar.decide.hand_facts import Overwritten, Slipped
from sidecar.decide.orders import LookAgain, Order
from sidecar.decide.world import World, replace, without
from state.key import ContainerKey

MOST_UNDONE: Final = 100
"""Foreign writes of one cpuset within a second that are surely undone at once: an engine manages 70, and each of its
updates takes longer than an answer.
"""


def after_overwriting(world: World, fact: Overwritten) -> World:
    """Return the world that knows whether a container's cpuset is wrested from the hand (1)."""
    if world.hand is None:
        return world
    wrested = world.hand.wrested
    if fact.is_wrested or fact.times >= MOST_UNDONE:
        wrested |= {fact.container}
    elif not fact.times:
        wrested -= {fact.container}
    hand = world.hand
    left = {key: told for key, told in hand.slipped.items() if key in wrested or hand.has_own_answer(key)}
    if (wrested, left) == (hand.wrested, hand.slipped):
        return world
    return replace(world, hand=replace(hand, wrested=wrested, slipped=left))


def after_slip(world: World, fact: Slipped) -> tuple[World, tuple[Order, ...]]:
    """Return the world in which a container has slipped (2), and a look at it."""
    container, hand = world.containers.get(fact.container), world.hand
    if hand is None:
        return world, ()
    hand = replace(hand, wrested=hand.wrested | {fact.container})
    if container is None:
        slipped = {**hand.slipped, fact.container: fact}
        return replace(world, hand=replace(hand, slipped=slipped)), ()
    made = after(container, SlipTold(fact.reason, world.state.online, fact.ended))
    return replace(world.with_container(made), hand=hand), (LookAgain(fact.container),)


def looked_after_slip(world: World, key: ContainerKey, began: int) -> World:
    """Return the world after a look at a container that may have slipped before it was known (3)."""
    container, hand = world.containers.get(key), world.hand
    if container is None or hand is None or (fact := hand.slipped.get(key)) is None:
        return world
    world = replace(world, hand=replace(hand, slipped=without(hand.slipped, key)))
    if began > fact.ended:
        return world
    return world.with_container(after(container, SlipTold(fact.reason, world.state.online, fact.ended)))
