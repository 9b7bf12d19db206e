"""Containers that are *wrested* from the hand: another program writes their cpusets, and the hand does not surely win.

1. One whose cpuset is written more often than is surely undone, or where what was written stands for a part of the time
   that counts. It may be anywhere while it runs, until it has been calm for a while (`World.may_run`): no other is
   alone beside it, and all stay settled.
2. One that has slipped: the owner or the mode of its files was changed, so that the hand cannot write it any more. It
   is wrested as well: a look shows where it is, and not where the next write puts it. Nothing undoes that write at
   once, so from each news of one until a look that began later, it may be anywhere for all: none is settled beside it.
   The engine moves it, as any container whose cgroup the hand cannot write.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.container.machine import after
from sidecar.decide.container.news import SlipTold
from sidecar.decide.hand_facts import Overwritten, Slipped
from sidecar.decide.orders import LookAgain, Order
from sidecar.decide.world import World, replace

MOST_UNDONE: Final = 100
"""Foreign writes of one cpuset within a second that are surely undone at once: an engine manages 70, and each of its
updates takes longer than an answer.
"""


def after_overwriting(world: World, fact: Overwritten) -> World:
    """Return the world that knows whether a container's cpuset is wrested from the hand (1)."""
    if world.hand is None:
        return world
    wrested = world.hand.wrested & world.containers.keys()
    if fact.is_wrested or fact.times >= MOST_UNDONE:
        wrested |= {fact.container} & world.containers.keys()
    elif not fact.times:
        wrested -= {fact.container}
    return world if wrested == world.hand.wrested else replace(world, hand=replace(world.hand, wrested=wrested))


def after_slip(world: World, fact: Slipped) -> tuple[World, tuple[Order, ...]]:
    """Return the world in which a container has slipped (2), and a look at it."""
    container, hand = world.containers.get(fact.container), world.hand
    if container is None or hand is None:
        return world, ()
    hand = replace(hand, wrested=(hand.wrested | {fact.container}) & world.containers.keys())
    made = after(container, SlipTold(fact.reason, world.state.online, fact.ended))
    return replace(world.with_container(made), hand=hand), (LookAgain(fact.container),)
