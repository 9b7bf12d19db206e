"""Insiders: what was born inside the group of an owner, and was not looked at since. Pure.

A container whose cgroup parent is an owner's group runs on the owner's CPUs, and the engine shows that only when its
start is over. The kernel shows its group before the runtime has put a process there. From then on the owner is not
alone, and the container is sure of no CPUs, until a look shows where it is: that says all there is to say, by the
parent that the container names.

1. A name counts where its container is. One that is known to name another parent, or none, is elsewhere: a group that
   is called like it is of the owner's own making.
2. What no engine knows is the owner's own as well: an engine inside it, or a system, names groups by ids too. Such a
   group is told only if the engine does not say so at once, and counts until it does.
3. A look ends it that began after the birth, as does the end of the group, or of the container. A glance ends nothing:
   it shows no parent.
"""

from __future__ import annotations

from sidecar.decide.hand_facts import BornInside, GoneInside
from sidecar.decide.hand_state import Insider, may_mean
from sidecar.decide.orders import LookAgain, Order
from sidecar.decide.world import World, replace, without
from state.key import ContainerKey


def after_birth_inside(world: World, fact: BornInside) -> tuple[World, tuple[Order, ...]]:
    """Return the world after a birth inside an owner's group, and a look at what was born."""
    hand = world.hand
    if hand is None or not _may_be_there(world, fact):
        return world, ()
    insiders = {**hand.insiders, fact.container: Insider(fact.owner, fact.began)}
    return replace(world, hand=replace(hand, insiders=insiders)), (LookAgain(fact.container),)


def after_end_inside(world: World, fact: GoneInside) -> World:
    """Return the world after the end of such a group."""
    known = world.hand.insiders.get(fact.container) if world.hand else None
    return without_insider(world, fact.container) if known and known.owner == fact.owner else world


def looked_inside(world: World, key: ContainerKey, began: int) -> World:
    """Return the world after a look at a container that began with this ticket (3)."""
    known = world.hand.insiders.get(key) if world.hand else None
    return without_insider(world, key) if known and began > known.since else world


def without_insider(world: World, key: ContainerKey) -> World:
    """Return the world in which nothing of this key was born inside; the same one if nothing was."""
    hand = world.hand
    if hand is None or key not in hand.insiders:
        return world
    return replace(world, hand=replace(hand, insiders=without(hand.insiders, key)))


def insiders_of(world: World, owner: ContainerKey) -> tuple[ContainerKey, ...]:
    """Return what was born inside the group of this owner, and was not looked at since, by its keys in order."""
    hand = world.hand
    if hand is None or not hand.insiders:
        return ()
    return tuple(sorted(key for key, each in hand.insiders.items() if each.owner == owner))


def _may_be_there(world: World, fact: BornInside) -> bool:
    """Return whether the container may name this parent, for all that is known (1)."""
    container, originals = world.containers.get(fact.container), world.state.originals.get(fact.container)
    by_the_books = originals.parent if originals is not None else None
    parent = by_the_books if container is None else world.parent_of(container)
    if parent is None:
        return True
    return may_mean(parent, fact.parent, world.info_of(fact.container.engine))
