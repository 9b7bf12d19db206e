"""Vacate before occupy: from where everybody should run, the orders that may be given now.

The theory. A policy says where everybody *should* run. A container's footprint is everywhere that it *may* be running.
Two containers conflict if either is exclusive. Then, for each container that has no order outstanding:

1. It may always **stay** on CPUs that it should have and already runs on; but not on those that another container is
   still leaving: until that has left, they are its own.
2. It may **enter** a CPU only if no conflicting container's footprint touches it. Reserved CPUs belong to nobody
   exclusively, so entering them is always free.
3. If that leaves nothing, it is **parked** on the reserved CPUs, so that a swap cannot deadlock.
4. A container that is not live runs nothing yet, and cannot wait when it starts. It is written onto its whole grant at
   once, except where another *exclusive* container's footprint is; one of the shared pool is written onto the pool. It
   stays where it was written.

There are no stages, no rollback and no transaction. Shrinks are always allowed and so go first; grows follow as
confirmations arrive; a failure leaves the rest waiting. Orders are made from the newest world and never queued: at most
`SLOTS` are outstanding, and the next are planned when an answer comes, so a burst of arrivals costs each shared
container one update.

Rules for changing this file: target() decides where, and nothing else may; whatever is ordered must be derivable from
footprints alone; the laws in tests/decide/lawbook/laws.py must hold over random histories, and each rule above has a
planted fault in tests/decide/lawbook/test_planted_faults.py that they catch.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

from sidecar.decide.container.container import Container
from sidecar.decide.container.footprint import Reach
from sidecar.decide.container.line import Free, Sent
from sidecar.decide.container.machine import after
from sidecar.decide.container.news import OrderSent
from sidecar.decide.container.originals import originals_of
from sidecar.decide.facts import Phase
from sidecar.decide.moves.limits import update_to
from sidecar.decide.moves.release import released_to
from sidecar.decide.moves.settled import desires, is_there
from sidecar.decide.moves.signals import signals, stops
from sidecar.decide.moves.starts import answers
from sidecar.decide.moves.timers import timers
from sidecar.decide.orders import ApplyCpuset, Order
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet

SLOTS: Final = 4
"""Orders outstanding at once. Beyond that the engine only adds latency: 50 updates take 0.3 s at 2, 4 and 8 at once."""

LATE_SLOTS: Final = 16
"""Orders besides, which are late or wait for a start: they cost the engine nothing but a connection."""

SWEEP_SLOTS: Final = 3
"""Of these, for containers that already run: a newcomer never waits behind a sweep for a slot."""

_SETTLING: Final = (Phase.CREATED, Phase.RESTARTING)
_HOPELESS: Final = (Phase.REMOVING, Phase.DEAD)


Change = tuple[int, int, Container, CPUSet]
"""A container that is not where it may be, or not limited as it should be, and where to send it; in front how urgent
that is (0 newcomers, 1 who must leave CPUs, 2 who gains, 3 who only might start one day) and when it arrived, by which
changes are put in order: no two containers arrived at once.
"""


def target(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
    """Where a container may be sent now. Never empty."""
    wanted, reserved, footprint = desired.mask, world.state.reserved.mask, container.footprint
    grant = world.state.assignments.get(container.view.key)
    if container.is_idle:
        # 4. It runs nothing yet.
        written = container.place.configured.mask
        stays = 0 if written & ~wanted else written
        conflicting = reached.other_exclusive(footprint) if grant else 0
    else:
        # 1. Stay. 2. Enter.
        stays = wanted & container.place.seen.mask
        conflicting = reached.others(footprint) if grant else reached.exclusive
    if grant:
        stays &= ~(world.state.leaving.mask & grant.cpus.mask)
    allowed = stays | (wanted & ~(conflicting & ~reserved))
    # 3. Park.
    allowed = allowed or reserved
    return desired if allowed == wanted else CPUSet.from_mask(allowed)


def plan(world: World) -> tuple[World, tuple[Order, ...]]:
    """The orders that may be given now, and the world in which they are outstanding."""
    if not world.is_ready or (world.settings.policy is PolicyName.NONE and not world.is_releasing):
        return answers(world)
    world, updates = _updates(world)
    if world.is_releasing:
        world = _without_the_restored(world)
    world, answered = answers(world)
    # After the answers: a start that was refused is a rest, which is timed.
    world, waits = timers(world)
    world, told = signals(world)
    world, stopped = stops(world)
    return world, (*updates, *waits, *told, *stopped, *answered)


def changes(world: World) -> Iterator[Change]:
    """Every container that an order would bring nearer to where it should be."""
    reached, where = world.reach, desires(world)
    for key, container in world.containers.items():
        if not may_order(container) or (wanted := where(container)) is None:
            continue
        cpus = target(world, container, wanted, reached)
        has_arrived = is_there(container, cpus)
        if has_arrived and key not in world.state.originals and key not in world.state.assignments:
            # Never changed and granted nothing: its limits are still its own.
            continue
        if has_arrived or container.barred or container.is_strict:
            # Only here: of those that are merely elsewhere, most find no slot.
            update = update_to(world, container, cpus)
            is_barred = container.barred is not None and container.barred.update == update
            if is_barred or (update.leaves_limits and (has_arrived or _asks_first(world, container))):
                continue
        yield _urgency(container, cpus), container.arrival, container, cpus


def may_order(container: Container) -> bool:
    """Whether an order may be given to it: none is outstanding or paused, no start is held, and it was looked at since
    somebody said that it is gone, if anybody did.
    """
    if container.is_held or container.is_disputed or not isinstance(container.line, Free):
        return False
    view = container.view
    return not view.is_glance and view.phase not in _HOPELESS


def _updates(world: World) -> tuple[World, tuple[ApplyCpuset, ...]]:
    """The most urgent changes, as many as there are slots for."""
    orders: list[ApplyCpuset] = []
    busy = _busy(world)
    if busy >= SLOTS:
        return world, ()
    containers = dict(world.containers)
    state, number = world.state, world.numbers
    for urgency, _, container, cpus in nsmallest(SLOTS - busy, changes(world)):
        if busy >= (SLOTS if urgency == 0 else SWEEP_SLOTS):
            break
        view, update = container.view, update_to(world, container, cpus)
        order = ApplyCpuset(view.key, number, update, live=not container.is_idle)
        state = state.remembering(view.key, originals_of(view))
        if update.nano_cpus not in (None, state.originals[view.key].nano_cpus):
            state = state.lifting(view.key, update.nano_cpus)
        containers[view.key] = after(container, OrderSent(order))
        orders.append(order)
        busy, number = busy + 1, number + 1
    if orders:
        world = replace(world, containers=containers, state=state, numbers=number)
    return world, tuple(orders)


def _busy(world: World) -> int:
    """How many slots are taken. An order that is late, or may wait for the end of a start that waits for others, takes
    none from them, up to a limit.
    """
    # Nearly every line is free, and an exact type is the quickest to tell.
    ordered = [each for each in world.containers.values() if not isinstance(each.line, Free)]
    late = [
        line.is_late or (each.is_strict and each.is_idle) for each in ordered if isinstance(line := each.line, Sent)
    ]
    return len(late) - min(sum(late), LATE_SLOTS)


def _asks_first(world: World, container: Container) -> bool:
    """Whether it runs nothing and for certain will not before its runtime was answered. An order that was on its way
    then would wait for the start, and move it afterwards.
    """
    return container.is_strict and container.is_idle and not container.is_doubtful and not world.is_releasing


def _without_the_restored(world: World) -> World:
    """While everything is given back: who is back already, or is just going, needs no order and no remembering."""
    state = world.state
    for key in state.originals:
        container = world.containers.get(key)
        wanted = released_to(world, container) if container and container.order is None else None
        if container is None or wanted is None:
            continue
        if has_all_back(world, container, wanted) or container.view.phase in _HOPELESS:
            state = state.forgetting(key)
    return world if state is world.state else replace(world, state=state)


def has_all_back(world: World, container: Container, cpus: CPUSet) -> bool:
    """Whether it is where it was before the sidecar, with its limits. What was only glanced at has shown neither."""
    is_known = is_there(container, cpus) and not container.view.is_glance
    return is_known and update_to(world, container, cpus).leaves_limits


def _urgency(container: Container, cpus: CPUSet) -> int:
    if container.is_idle:
        return 0 if container.view.phase in _SETTLING else 3
    return 1 if container.place.seen.mask & ~cpus.mask else 2
