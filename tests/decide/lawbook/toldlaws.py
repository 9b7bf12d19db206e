"""The laws of telling: no CPU is told that is not there; what is told to be a container's own is withdrawn before
others are let in; what was announced to leave is not withdrawn before its time; what is about to have more CPUs is not
told to be settled.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import Phase
from sidecar.decide.orders import AnswerStart, ApplyCpuset, HoldAnswers, Order, WriteCpuset
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.projection import opened
from sidecar.projection.projection_of import projection_of
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey
from state.leaving import Leaving
from tests.decide.lawbook.alonelaws import accounted
from tests.support.decide.handreality import HandReality
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality


def ahead_of_the_truth(reality: Reality) -> list[str]:
    """Check that the projected file names no CPU that the container lacks: of one that is known to run, that only a
    glance has shown, or whose birth the hand answers.
    """
    return [
        f"{real.name} is told {told} and has {real.effective}"
        for real in accounted(reality)
        if real.effective is not None
        and _is_told_of_a_run(reality, real, container := reality.world.containers[real.key])
        and (told := reality.world.sure_of(container))
        and not told & reality.online <= real.effective
    ]


def _is_told_of_a_run(reality: Reality, real: Real, container: Container) -> bool:
    """Return whether a container is told where it runs, or would run if it does not. A hand that cannot write a newborn
    reports where that is too much, and not what it lacks: a look tells, if it begins after the newborn was moved.
    """
    hand = reality.hand if isinstance(reality, HandReality) else None
    is_closed = hand is not None and (real.id in hand.closed or real.id in hand.denied)
    if container.view.phase.is_live:
        is_looked_at = real.effective == real.shown and not reality.is_being_looked_at(real.key)
        return not is_closed or is_looked_at or not (hand and hand.is_newborn(real.id))
    return (container.view.is_glance or container.is_covered) and not is_closed


def let_in_early(reality: Reality) -> list[str]:
    """Return orders of the last step onto CPUs that another container was told to have alone before it, and that
    neither its own order nor a correction withdraws first. Nobody reads what was told to a container that is gone, or
    half removed.
    """
    before, found = reality.planned_from, list[str]()
    entered = [*_entered(_letting_in(reality)), *_let_go(reality)]
    if not entered:
        return []
    corrected = _corrected(reality)
    for key in before.state.assignments.keys() & reality.world.containers.keys():
        if reality.world.containers[key].view.phase is Phase.DEAD:
            continue
        world = reality.world if key in corrected else before
        known = world.containers.get(key)
        if known is None or not (told := projection_of(world, known)).alone:
            continue
        left = told.cpus
        for order in reality.last_orders:
            if isinstance(order, ApplyCpuset | WriteCpuset) and order.container == key:
                left &= order.update.cpus
        found += [
            f"{known.view.name} is told to be alone on {both}, and {other.short} is let in"
            for other, cpus in entered
            if other != key and (both := left & cpus)
        ]
    return found


def settled_as_it_grows(reality: Reality) -> list[str]:
    """Return the owners that are told to be settled while an order gives them CPUs which their files do not name: from
    the kernel's obedience to its answer, they do not run exactly where their files say. What rests runs nowhere, and
    under the policy `none` there are no files.
    """
    before, corrected, found = reality.planned_from, _corrected(reality), list[str]()
    for order in reality.last_orders:
        if not isinstance(order, WriteCpuset) and not (isinstance(order, ApplyCpuset) and order.live):
            continue
        world = reality.world if order.container in corrected else before
        known = world.containers.get(order.container)
        if known is None or order.container not in world.state.assignments or world.settings.policy is PolicyName.NONE:
            continue
        told = projection_of(world, known)
        if not told.cpus <= order.update.cpus:
            told = told.within(order.update.cpus)
        if told.settled and (more := order.update.cpus - told.cpus):
            found.append(f"{known.view.name} is told to be settled on {told.cpus}, and is given {more}")
    return found


def notices_taken_back(reality: Reality) -> list[str]:
    """Return what the last orders withdraw, for a birth to come, from a container that runs, while it may stay there:
    its notice would seem to be over, and begin again. One that started unseen among all others, as before its first
    order, has none of its own to stay on, until its run is known; nor has one those that another program took from it.
    """
    world = reality.world
    return [
        f"{grant.name} is told that {lost} are gone, which it may still use"
        for order in reality.last_orders
        if isinstance(order, HoldAnswers)
        for key, cpus in opened.taken_at_birth(world, order)
        if (grant := world.state.assignments.get(key)) is not None
        and grant.leaving is not None
        and (real := reality.containers.get(key)) is not None
        and real.effective is not None
        and not _started_among_others(reality.planned_from, real, grant.cpus | grant.leaving.cpus)
        and (lost := (_announced(grant.leaving) & real.effective & _seen(world, key)) - cpus)
    ]


def _seen(world: World, key: ContainerKey) -> CPUSet:
    """Return where a container was seen last; anywhere, if it was not."""
    return world.containers[key].place.seen if key in world.containers else world.state.online


def _started_among_others(world: World, real: Real, own: CPUSet) -> bool:
    """Return whether a container was last seen at rest, or in another run, and started elsewhere than on its own CPUs,
    or was to, for all that was known.
    """
    known = world.containers.get(real.key)
    if known is None or not (known.is_idle or known.view.started_at != real.started_at):
        return False
    return not (real.effective or EMPTY) <= own or not known.written <= own


def _announced(leaving: Leaving) -> CPUSet:
    """Return the CPUs of which the container was told that they leave, and that are not due."""
    return union(each.cpus for each in leaving.batches if each.notice_seconds is not None)


def _corrected(reality: Reality) -> set[ContainerKey]:
    """Return the containers whose files are written anew before any order of the last step leaves."""
    world, orders = reality.world, reality.last_orders
    return {*opened.losers(reality.planned_from, world), *opened.joined(world, orders), *opened.gainers(world, orders)}


def _letting_in(reality: Reality) -> tuple[Order, ...]:
    """Return the last orders without those for a container that rests, and is in the sidecar's care no more: it counts
    only while it runs, wherever it would start.
    """
    known = reality.world.containers

    def is_outside(order: Order) -> bool:
        if not isinstance(order, ApplyCpuset) or order.container not in known:
            return False
        container = known[order.container]
        return container.is_idle and container.wish.standing is Standing.UNMANAGED

    return tuple(order for order in reality.last_orders if not is_outside(order))


def _entered(orders: tuple[Order, ...]) -> Iterator[tuple[ContainerKey, CPUSet]]:
    """Yield each container that these orders let onto CPUs, and the CPUs; with an empty key for other newborns."""
    for order in orders:
        match order:
            case ApplyCpuset() | WriteCpuset():
                yield order.container, order.update.cpus
            case AnswerStart(update=update) if update is not None:
                yield order.container, update.cpus
            case HoldAnswers(answers=answers):
                yield from ((key, cpus) for key, cpus in answers.own.items() if cpus is not None)
                if answers.others is not None:
                    yield ContainerKey("", ""), answers.others
            case _:
                pass


def _let_go(reality: Reality) -> Iterator[tuple[ContainerKey, CPUSet]]:
    """Yield each container that these orders leave alone from now on, and where it may then be."""
    world = reality.world
    for order in reality.last_orders:
        match order:
            case HoldAnswers(answers=answers):
                gone = [world.containers.get(key) for key, cpus in answers.own.items() if cpus is None]
                yield from ((each.view.key, reality.online) for each in gone if each and world.is_let_go(each))
            case AnswerStart(container=key, update=None, refusal=None):
                container = world.containers[key]
                # What is in the shared group has no CPUs outside the group's.
                group = world.group if container.view.in_shared_group else None
                mask = container.footprint & (group.footprint if group else reality.online.mask)
                yield key, CPUSet.from_mask(mask) & reality.online
            case _:
                pass
