"""The laws of the shared pool: grants leave it its minimum, also in force, while what it gets is still being left."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.container.container import Standing
from sidecar.decide.following import before_what_follows
from sidecar.decide.orders import HoldAnswers
from sidecar.decide.placement.options import FULL_PCPUS_ONLY
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet, union
from state.model import State
from tests.support.decide.reality import Reality
from tests.support.laws import Law


def cut_by_grants(reality: Reality) -> list[str]:
    """Check that grants leave the shared pool its minimum, not counting CPUs that are isolated or strictly reserved."""
    world, settings = reality.world, reality.world.settings
    apart = world.state.reserved if world.state.strict else EMPTY
    if settings.isolated is not IsolatedRule.IGNORE:
        apart |= world.topology.isolated
    pool = world.topology.online - apart
    granted = pool - (left := pool - world.state.exclusive)
    least = max(1, settings.shared_min)
    return (
        [f"of {pool}, {granted} are granted, and {left or 'none'} stay shared"] if granted and len(left) < least else []
    )


def cut_in_force(reality: Reality) -> list[str]:
    """Return how the last burst made the shared pool in force smaller than its minimum, though it had as much, and is
    to have as much again. CPUs that went offline or became reserved are no longer in it; it never had those that came.
    """
    before, world = reality.planned_from, reality.world
    if not _is_placing(world):
        return []
    had, now = _had_in_force(before, world), in_force(world, world.state)
    decided = _countable(world, world.state) - world.state.exclusive
    least = min(max(1, world.settings.shared_min), len(decided), len(had))
    if len(now) < least:
        return [f"the pool had {had}, is to have {decided}, and has {now or 'none'} until others have left"]
    if _keeps_core(world) and all(_has_core(world, cpus) for cpus in (had, decided)) and not _has_core(world, now):
        return [f"the pool had a whole core of {had}, and has none in {now}"]
    return []


def cut_by_orders(reality: Reality) -> Iterator[str]:
    """Yield orders that leave a running container of the shared pool fewer CPUs than the minimum, though it had as many
    of the pool in force, and is to have as many again. If it makes way for a held start, it may have to wait until that
    is over for CPUs that are closed to it only by what an order may bring afterwards ("Nothing is lent of what a held
    start waits for on account of what an order may bring after that start: each would wait for the other", 0034).
    """
    before, world = reality.planned_from, reality.world
    if not _is_placing(world):
        return
    pool, decided = _had_in_force(before, world), _countable(world, world.state) - world.state.exclusive
    waited_for = _waited_for(world)
    behind = world.reach.exclusive & ~before_what_follows(world).exclusive if waited_for else 0
    for order in reality.new_moves:
        container = world.containers[order.container]
        if order.container in world.state.assignments or order.update.cpus is None:
            continue
        if container.wish.standing is not Standing.MANAGED or container.is_idle or container.wish.pin:
            continue
        had, gets = container.place.seen & pool, order.update.cpus & _countable(world, world.state)
        if had - gets <= waited_for:
            gets |= decided & CPUSet.from_mask(behind)
        if len(gets) < min(max(1, world.settings.shared_min), len(had), len(decided)):
            yield f"{container.view.name} had {had}, is to have {decided}, and is ordered to {gets or 'none'}"


def _waited_for(world: World) -> CPUSet:
    """Return what is granted to containers whose start is held, if an order may follow it."""
    grants = world.state.assignments.items()
    return union(each.cpus for key, each in grants if key in world.containers and world.containers[key].is_followed)


def in_force(world: World, state: State) -> CPUSet:
    """Return the CPUs that containers without a grant may have now, of those that count on this machine under these
    settings: no container owns them, or is still leaving them, but for those that stay in the pool until others left.
    """
    owned = (state.exclusive - state.lent) | state.leaving
    return _countable(world, world.state) - owned


def _had_in_force(before: World, world: World) -> CPUSet:
    """Return what counts now of the CPUs that containers without a grant could have before."""
    return in_force(world, before.state) & before.topology.online


def let_onto_lent_cpus(reality: Reality) -> Iterator[str]:
    """Yield what lets owners onto CPUs that the shared pool keeps as yet."""
    world = reality.world
    if not world.state.lent:
        return
    for order in reality.new_moves:
        if order.container in world.state.assignments and (both := order.update.cpus & world.state.lent):
            yield f"{world.containers[order.container].view.name} was ordered onto {both}, which the pool keeps as yet"
    for answer in reality.new_answers:
        if (
            answer.exclusive
            and answer.update
            and answer.update.cpus
            and (both := answer.update.cpus & world.state.lent)
        ):
            yield f"{answer.container.short} was told to start on {both}, which the pool keeps as yet"
    for told in (each for each in reality.last_orders if isinstance(each, HoldAnswers)):
        for key in told.answers.own.keys() & world.state.assignments.keys():
            if both := (told.answers.own[key] or EMPTY) & world.state.lent:
                yield f"{key.short} is born on {both}, which the pool keeps as yet"


def lent_for_nothing(reality: Reality) -> list[str]:
    """Return CPUs that stay in the pool although it has its minimum without them: of those that its containers are on,
    or may enter. Until everything was looked at it is not known where they are: what the books have stands, and no more
    is lent than what is being left asks for.
    """
    world = reality.world
    lent = world.state.lent
    if not lent:
        return []
    pool = in_force(world, world.state)
    now = pool - (_not_entered(reality) if world.is_ready else EMPTY)
    if not _is_placing(world) or lent - world.state.exclusive:
        return [f"{lent} are lent"]
    least, keeps_core = max(1, world.settings.shared_min), _keeps_core(world)
    return [
        f"{cpu} stays in the pool, which has {now}"
        for cpu in (lent if world.is_ready else lent - reality.recorded.lent)
        if len(rest := now - CPUSet.of(cpu)) >= least
        and not (keeps_core and _has_core(world, pool) and not _has_core(world, rest))
    ]


def _not_entered(reality: Reality) -> CPUSet:
    """Return the CPUs that an owner, or one that was told to start alone, may be on, and a running container of the
    shared pool is not.
    """
    world = reality.world
    owners = [each for key, each in world.containers.items() if key in world.state.assignments or each.is_promised]
    others = [
        each
        for key, each in world.containers.items()
        if key not in world.state.assignments and each.wish.standing is Standing.MANAGED and not each.is_idle
    ]
    taken = union(CPUSet.from_mask(each.footprint) for each in owners)
    return union(taken - each.present for each in others)


def _is_placing(world: World) -> bool:
    return world.settings.policy is not PolicyName.NONE and not world.is_releasing


def _countable(world: World, state: State) -> CPUSet:
    """Return the CPUs that count as the shared pool's where none is granted."""
    apart = state.reserved if state.strict else EMPTY
    if world.settings.isolated is not IsolatedRule.IGNORE:
        apart |= world.topology.isolated
    return world.topology.online - apart


def _keeps_core(world: World) -> bool:
    return world.state.strict and FULL_PCPUS_ONLY in world.settings.options


def _has_core(world: World, cpus: CPUSet) -> bool:
    return any(core.cpus <= cpus for core in world.topology.cores)


POOL_IN_FORCE = Law("the shared pool keeps its minimum in force", cut_in_force)
CUT_BY_ORDERS = Law("no order leaves a shared container less than the pool keeps", cut_by_orders)
NOT_ENTERED = Law("no owner is let onto what the pool keeps as yet", let_onto_lent_cpus)
NOT_IN_VAIN = Law("the pool keeps nothing in vain", lent_for_nothing)

LAWS = (POOL_IN_FORCE, CUT_BY_ORDERS, NOT_ENTERED, NOT_IN_VAIN)
"""All of them."""
