"""Vacate before occupy: from where everybody should run, the orders that may be given now.

The theory. A policy says where everybody *should* run. A container's footprint is everywhere that it *may* be running.
Two containers conflict if either is exclusive. Then, for each container that has no order outstanding:

1. It may always **stay** on CPUs that it should have and already runs on.
2. It may **enter** a CPU only if no conflicting container's footprint touches it. Reserved CPUs belong to nobody
   exclusively, so entering them is always free.
3. If that leaves nothing, it is **parked** on the reserved CPUs, so that a swap cannot deadlock.
4. A container that is not live runs nothing yet, and cannot wait when it starts. It is written onto its whole grant at
   once, except where another *exclusive* container's footprint is; one of the shared pool is written onto the pool.

There are no stages, no rollback and no transaction. Shrinks are always allowed and so go first; grows follow as
confirmations arrive; a failure leaves the rest waiting. Orders are made from the newest world and never queued: at most
`SLOTS` are outstanding, and the next are planned when an answer comes, so a burst of arrivals costs each shared
container one update.

Rules for changing this file: target() decides where, and nothing else may; whatever is ordered must be derivable from
footprints alone; the laws in tests/decide/laws.py must hold over random histories, and each rule above has a planted
fault in tests/decide/test_planted_faults.py that they catch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.terms import terms_of
from sidecar.decide.facts import Phase, Purpose
from sidecar.decide.limits import update_to
from sidecar.decide.orders import ApplyCpuset, Order, SendSignal, StartTimer, StopContainer
from sidecar.decide.policies.registry import policy_named
from sidecar.decide.release import released_to
from sidecar.decide.starting import answers
from sidecar.decide.takes import held
from sidecar.decide.world import Container, PolicyName, Reach, World, replace
from state.cpuset import EMPTY, CPUSet
from state.model import Assignment, Batch, Leaving, Shortage

SLOTS: Final = 4
"""Orders outstanding at once. Beyond that the engine only adds latency: 50 updates take 0.3 s at 2, 4 and 8 at once."""

LATE_SLOTS: Final = 16
"""Orders besides, which are late or wait for a start: they cost the engine nothing but a connection."""

SWEEP_SLOTS: Final = 3
"""Of these, for containers that already run: a newcomer never waits behind a sweep for a slot."""

_SETTLING: Final = (Phase.CREATED, Phase.RESTARTING)
_HOPELESS: Final = (Phase.REMOVING, Phase.DEAD)


def target(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
    """Where a container may be sent now. Never empty."""
    wanted, seen, reserved = desired.mask, container.seen.mask, world.state.reserved.mask
    footprint = container.footprint
    is_exclusive = container.view.id in world.state.assignments
    if container.is_idle:
        # 4. It runs nothing yet.
        allowed = wanted & ~(reached.other_exclusive(footprint) & ~reserved) if is_exclusive else wanted
    else:
        # 1. Stay. 2. Enter.
        conflicting = reached.others(footprint) if is_exclusive else reached.exclusive
        allowed = (wanted & seen) | (wanted & ~(conflicting & ~reserved))
    # 3. Park.
    return CPUSet.from_mask(allowed or reserved)


def is_settled(world: World, container: Container) -> bool:
    """Whether an exclusive container runs exactly on its grant, with nothing outstanding, and truly alone. What is
    leaving it is its own for as long as it may stay there.
    """
    assignment = world.state.assignments.get(container.view.id)
    if assignment is None or container.is_idle or not world.is_ready:
        return False
    return (
        container.footprint == held(assignment, container).mask == container.sure.mask
        and container.pending is None
        and not world.reach.others(container.footprint) & container.footprint
    )


def desired(world: World, container: Container) -> CPUSet | None:
    """Where a container should run, by the policy or because everything is being given back; None: not ours to say."""
    if world.is_releasing:
        return released_to(world, container)
    return policy_named(world.settings.policy).desired(world, container)


def plan(world: World) -> tuple[World, tuple[Order, ...]]:
    """The orders that may be given now, and the world in which they are outstanding."""
    if not world.is_ready or (world.settings.policy is PolicyName.NONE and not world.is_releasing):
        return answers(world)
    changes = sorted(_changes(world), key=lambda change: change[0])
    orders: list[Order] = []
    busy = _busy(world)
    containers = dict(world.containers)
    state, number = world.state, world.numbers
    for (urgency, _), container, cpus in changes:
        if busy >= (SLOTS if urgency == 0 else SWEEP_SLOTS):
            break
        update = update_to(world, container, cpus)
        order = ApplyCpuset(container.view.id, number, update, live=not container.is_idle)
        state = state.remembering(container.view.id, originals_of(container.view))
        if update.nano_cpus not in (None, state.originals[container.view.id].nano_cpus):
            state = state.lifting(container.view.id, update.nano_cpus)
        containers[container.view.id] = replace(container, pending=order, is_delayed=False, was_looked_at=False)
        orders.append(order)
        busy, number = busy + 1, number + 1
    if orders:
        world = replace(world, containers=containers, state=state, numbers=number)
    if world.is_releasing:
        world = _without_the_restored(world)
    world, waits = _waits(world)
    world, answered = answers(world)
    return world, (*orders, *waits, *answered)


def _busy(world: World) -> int:
    """How many slots are taken. An order that is late, or may wait for the end of a start that waits for others, takes
    none from them, up to a limit.
    """
    pending = [container for container in world.containers.values() if container.pending]
    late = sum(1 for container in pending if container.is_delayed or (container.is_strict and container.is_idle))
    return len(pending) - min(late, LATE_SLOTS)


def _changes(world: World) -> list[tuple[tuple[int, int], Container, CPUSet]]:
    """Every container that is not where it may be, or not limited as it should be, with its urgency and where to."""
    reached = world.reach
    found = []
    policy = policy_named(world.settings.policy)
    for id, container in world.containers.items():
        if container.pending or container.waits or container.held is not None or container.view.is_glance:
            continue
        if container.view.phase in _HOPELESS:
            continue
        wanted = desired(world, container) if world.is_releasing else policy.desired(world, container)
        if wanted is None:
            continue
        cpus = target(world, container, wanted, reached)
        is_there = _is_there(container, cpus)
        # Who was never changed and is granted nothing has its own limits, which need no comparing.
        is_limited = id not in world.state.originals and id not in world.state.assignments
        if is_there and (is_limited or update_to(world, container, cpus).leaves_limits):
            continue
        if _asks_first(world, container) and update_to(world, container, cpus).leaves_limits:
            continue
        if container.refused is None or container.refused != update_to(world, container, cpus):
            found.append(((_urgency(container, cpus), container.arrival), container, cpus))
    return found


def _asks_first(world: World, container: Container) -> bool:
    """Whether it runs nothing and for certain will not before its runtime was answered. An order that was on its way
    then would wait for the start, and move it afterwards.
    """
    is_sure = not container.doubts and not container.is_lost
    return container.is_strict and container.is_idle and is_sure and not world.is_releasing


def grace_of(world: World, assignment: Assignment) -> float:
    """Seconds of notice before CPUs are taken from it."""
    return terms_of(world.settings, assignment.demand).grace_seconds


def told_of(container: Container, assignment: Assignment) -> tuple[CPUSet, CPUSet]:
    """The CPUs in force, and those of them that are leaving: what the workload is told."""
    sure = container.sure
    return sure, assignment.leaving.cpus & sure if assignment.leaving else EMPTY


def _that_begin(container: Container, leaving: Leaving) -> Iterator[Batch]:
    """The takes whose grace may begin, in their order. Not while CPUs that are to leave again are only just coming:
    they are not told before that is certain, and notice of them would begin before it is given. Nor any after such a
    one, since a grace that is over ends all before it.
    """
    coming = container.pending.update.cpus.mask if container.pending else 0
    for doubt in container.doubts:
        coming |= doubt.mask
    for batch in leaving.batches:
        if batch.cpus.mask & coming & ~container.sure.mask:
            return
        if container.grace is None or batch.number > container.grace:
            yield batch


def _signalled(container: Container, assignment: Assignment) -> tuple[Container, list[Order]]:
    """A signal for each change of what it is told, from the first time on that it runs where it should."""
    if not assignment.demand.signal:
        return container, []
    if container.is_idle:
        return (replace(container, signalled=None) if container.signalled else container), []
    told = told_of(container, assignment)
    if not told[0] or told == container.signalled:
        return container, []
    if container.signalled is None:
        is_there = container.seen == held(assignment, container)
        return (replace(container, signalled=told) if is_there else container), []
    return replace(container, signalled=told), [SendSignal(container.view.id, assignment.demand.signal)]


def _is_there(container: Container, cpus: CPUSet) -> bool:
    return container.configured == cpus == container.seen and not container.is_lost


def _without_the_restored(world: World) -> World:
    """While everything is given back: who is back already, or is just going, needs no order and no remembering."""
    state = world.state
    for id in state.originals:
        container = world.containers.get(id)
        wanted = released_to(world, container) if container and not container.pending else None
        if container is None or wanted is None:
            continue
        is_back = _is_there(container, wanted) and update_to(world, container, wanted).leaves_limits
        if is_back or container.view.phase in _HOPELESS:
            state = state.forgetting(id)
    return world if state is world.state else replace(world, state=state)


def _urgency(container: Container, cpus: CPUSet) -> int:
    """0 newcomers, 1 who must leave CPUs, 2 who gains, 3 who only might start one day."""
    if container.is_idle:
        return 0 if container.view.phase in _SETTLING else 3
    return 1 if container.seen.mask & ~cpus.mask else 2


def _lingers(container: Container) -> bool:
    """Whether it waits for a start that may never come: not while one is held, or was answered and is on its way."""
    is_starting = container.held is not None or (container.has_asked and container.is_lost)
    return container.is_idle and not is_starting and container.view.phase is not Phase.RESTARTING


def _waits(world: World) -> tuple[World, list[Order]]:
    """Start what is to be waited for, tell by signal who wants that, and stop who would rather stop than share."""
    orders: list[Order] = []
    settings = world.settings
    for id, assignment in sorted(world.state.assignments.items(), key=lambda item: item[1].since):
        container = before = world.containers[id]
        if _lingers(container) and container.linger is None:
            container = replace(container, linger=world.numbers)
            orders.append(StartTimer(id, Purpose.LINGER, world.numbers, settings.linger_seconds))
            world = replace(world, numbers=world.numbers + 1)
        leaving, cooling = assignment.leaving, assignment.cooling
        for batch in _that_begin(before, leaving) if leaving else ():
            container = replace(container, grace=batch.number)
            orders.append(StartTimer(id, Purpose.GRACE, batch.number, grace_of(world, assignment)))
        if cooling is not None and container.cooldown != cooling:
            container = replace(container, cooldown=cooling)
            orders.append(StartTimer(id, Purpose.COOLDOWN, cooling, settings.cooldown_seconds))
        container, signals = _signalled(container, assignment)
        orders += signals
        if container is not before:
            world = world.with_container(container)
    for id, refused in world.state.refusals.items():
        if refused.demand is None or refused.demand.shortage is not Shortage.STOP or id not in world.containers:
            continue
        container = world.containers[id]
        if not container.is_idle and container.stop_ordered != container.view.started_at:
            orders.append(StopContainer(id, refused.refusal))
            world = world.with_container(replace(container, stop_ordered=container.view.started_at))
    return world, orders
