"""Sifting: a decision that raises is made again without the facts that make it raise, if each is about one container.

1. The burst is decided as a whole. That is all, unless it raises.
2. Then it is decided one fact at a time. A look that raises is tried without the texts that the container's author
   wrote, and then left out, like any other fact about one container: the world knows what it knew.
3. A fact that is about no container is not left out: its error ends the daemon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from sidecar.crashes import Crashes
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    CpusetFailed,
    Fact,
    GiveUpRequested,
    InventoryTaken,
    LoadMeasured,
    OrderDelayed,
    ResizeRequested,
    RetryDue,
    StartHeld,
    StartLetGo,
    StopFailed,
    TakeAcknowledged,
    TimerEnded,
)
from sidecar.decide.hand_facts import BornInside, CpusetWritten, GoneInside, Overwritten, Slipped, WriteFailed
from sidecar.decide.orders import Order
from sidecar.decide.step import step
from sidecar.decide.world import World
from state.key import ContainerKey


class Decided(NamedTuple):
    """A decision, and the facts that it is based on."""

    world: World
    orders: tuple[Order, ...]
    facts: Sequence[Fact]


def decide(world: World, burst: Sequence[Fact], crashes: Crashes) -> Decided:
    """Return what `step` decides, without facts about one container that make it raise."""
    with crashes.contained(None, "decision"):  # 1.
        return Decided(*step(world, burst), burst)
    orders: list[Order] = []
    taken: list[Fact] = []
    for given in burst:  # 2.
        for fact in _sound(world, given, crashes):
            made = None
            if (container := _container_of(fact)) is None:
                made = step(world, [fact])  # 3.
            else:
                with crashes.contained(container, "decision"):
                    made = step(world, [fact])
            if made is not None:
                world = made[0]
                orders += made[1]
                taken.append(fact)
    return Decided(world, tuple(orders), taken)


def _sound(world: World, fact: Fact, crashes: Crashes) -> list[Fact]:
    """Return a fact in parts, with views that do not make the decision raise."""
    match fact:
        case ContainerSeen():
            return [ContainerSeen(view, fact.began) for view in _bearable(world, fact.view, fact.began, crashes)]
        case InventoryTaken():
            seen = [view for each in fact.seen for view in _bearable(world, each, fact.began, crashes)]
            return [msgspec.structs.replace(fact, seen=tuple(seen))]
        case LoadMeasured():
            return [LoadMeasured((load,)) for load in fact.loads]
        case _:
            return [fact]


def _bearable(world: World, view: ContainerView, began: int, crashes: Crashes) -> list[ContainerView]:
    """Return the view, or else its plain part; nothing if the decision raises with either."""
    for each in (view, _plain(world, view)):
        with crashes.contained(view.key, "decision"):
            step(world, [ContainerSeen(each, began)])
            return [each]
    return []


def _plain(world: World, view: ContainerView) -> ContainerView:
    """Return what a view shows of phase, CPUs and limits, without the texts that the container's author writes: those
    that are known, or none. So it runs in the shared pool, if the decision can bear that.
    """
    known = world.containers.get(view.key)
    told = known.view if known else ContainerView(id=view.id, name=view.key.short, phase=view.phase)
    return msgspec.structs.replace(
        view, name=told.name, labels=told.labels, mounts=told.mounts, image=told.image, runtime=told.runtime
    )


def _container_of(fact: Fact) -> ContainerKey | None:
    """Return the one container that a fact is about; None for all others."""
    match fact:
        case ContainerSeen() | StartHeld():
            return fact.view.key
        case LoadMeasured(loads=(load,)):
            return load.container
        case (
            ContainerRemoved()
            | CpusetApplied()
            | CpusetFailed()
            | OrderDelayed()
            | RetryDue()
            | TimerEnded()
            | TakeAcknowledged()
            | ResizeRequested()
            | GiveUpRequested()
            | StartLetGo()
            | StopFailed()
            | CpusetWritten()
            | WriteFailed()
            | Overwritten()
            | Slipped()
            | BornInside()
            | GoneInside()
        ):
            return fact.container
        case _:
            return None
