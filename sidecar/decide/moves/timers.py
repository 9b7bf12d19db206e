"""Timers: a timer runs if and only if the world wants it.

What is waited for, by container: the end of a rest (`LINGER`), of the notice before CPUs are taken (`GRACE`), of the
peace after a growth (`COOLDOWN`). Each has a number; a timer that ends with another number says nothing. A restart of
the sidecar begins all of them anew: what was promised is a minimum.

Only this module and the removal of a container write `World.timers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sidecar.decide.books.takes import grace_over
from sidecar.decide.container.container import Container
from sidecar.decide.container.machine import after, rests
from sidecar.decide.container.news import Lapsed
from sidecar.decide.container.start import Answered, Held
from sidecar.decide.facts import Purpose, TimerEnded
from sidecar.decide.orders import StartTimer
from sidecar.decide.world import World, replace, without
from state.key import ContainerKey
from state.model import Assignment, Batch

NOTHING_BEGUN: Final = -1
"""Stands for the number of a take before all takes, which are numbered from 0."""


def timers(world: World) -> tuple[World, tuple[StartTimer, ...]]:
    """The timers to start now, and the world in which those run that it wants, and no others."""
    orders: list[StartTimer] = []
    running: dict[ContainerKey, Mapping[Purpose, int]] = {}
    for key, assignment in sorted(world.state.assignments.items(), key=lambda item: item[1].since):
        container, leaving, cooling = world.containers[key], assignment.leaving, assignment.cooling
        rests_now = is_resting(container)
        if not rests_now and leaving is None and cooling is None:
            continue
        before = world.timers.get(key, {})
        now: dict[Purpose, int] = {}
        if rests_now:
            now[Purpose.LINGER] = number = before.get(Purpose.LINGER, world.numbers)
            if number == world.numbers:
                orders.append(StartTimer(key, Purpose.LINGER, number, world.settings.linger_seconds))
                world = replace(world, numbers=number + 1)
        if leaving is not None and (batches := leaving.batches):
            begun = before.get(Purpose.GRACE, NOTHING_BEGUN)
            for batch in _that_begin(container, batches, begun):
                orders.append(StartTimer(key, Purpose.GRACE, batch.number, grace_of(world, assignment)))
                begun = batch.number
            if begun != NOTHING_BEGUN:
                now[Purpose.GRACE] = begun
        if cooling is not None:
            now[Purpose.COOLDOWN] = cooling
            if before.get(Purpose.COOLDOWN) != cooling:
                orders.append(StartTimer(key, Purpose.COOLDOWN, cooling, world.settings.cooldown_seconds))
        if now:
            running[key] = now
    return (world if running == world.timers else replace(world, timers=running)), tuple(orders)


def after_timer(world: World, fact: TimerEnded) -> World:
    """The world once a timer is over. One that was replaced says nothing."""
    container = world.containers.get(fact.container)
    if container is None:
        return world
    match fact.purpose:
        case Purpose.LINGER:
            is_running = world.timers.get(fact.container, {}).get(Purpose.LINGER) == fact.number
            is_wanted = is_running and fact.container in world.state.assignments
            return world.with_container(after(container, Lapsed())) if is_wanted else world
        case Purpose.GRACE:
            return grace_over(world, fact.container, fact.number)
        case Purpose.COOLDOWN:
            assignment = world.state.assignments.get(fact.container)
            if assignment is None or assignment.cooling != fact.number:
                return world
            return replace(world, state=world.state.holding(replace(assignment, cooling=None)))


def interrupted(world: World, key: ContainerKey) -> World:
    """The world after news of a container that ended a rest of it, if there was any: the next one begins anew."""
    container, running = world.containers.get(key), world.timers.get(key, {})
    if container is None or Purpose.LINGER not in running or (rests(container.view) and not container.is_held):
        return world
    return _with(world, key, {purpose: number for purpose, number in running.items() if purpose is not Purpose.LINGER})


def grace_of(world: World, assignment: Assignment) -> float:
    """Seconds of notice before CPUs are taken from it."""
    own = assignment.demand.grace_seconds
    return world.settings.grace_seconds if own is None else own


def is_resting(container: Container) -> bool:
    """Whether it waits for a start that may never come, and not for too long yet. Not while a start is held, or was
    answered and is on its way.
    """
    return rests(container.view) and not container.is_lapsed and not isinstance(container.start, Held | Answered)


def _that_begin(container: Container, batches: Sequence[Batch], begun: int) -> Iterator[Batch]:
    """The takes whose grace may begin, in their order. Not while CPUs that are to leave again are only just coming:
    they are not told before that is certain, and notice of them would begin before it is given. Nor any after such a
    one, since a grace that is over ends all before it.
    """
    for batch in batches:
        if batch.cpus.mask & container.coming & ~container.sure.mask:
            return
        if batch.number > begun:
            yield batch


def _with(world: World, key: ContainerKey, running: Mapping[Purpose, int]) -> World:
    return replace(world, timers={**world.timers, key: running} if running else without(world.timers, key))
