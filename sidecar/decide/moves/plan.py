"""Vacate before occupy: from where each container should run, the orders that may be given now.

The theory. A policy decides where each container *should* run. A footprint is every CPU where a container *may* be
running. Two containers conflict if either is exclusive. Then, for each container without an outstanding order:

1. It may always **stay** on CPUs that it should have and already runs on; but not on those that another container is
   still leaving: they are exclusive to that one until it has left. One whose CPUs all went offline runs on all others
   already: what it should have of these is no other exclusive container's, no newborn's, and not where a start was
   answered.
2. It may **enter** a CPU only if no conflicting container's footprint touches it; under full-pcpus-only, only if none
   touches what it should have of that core. Reserved CPUs are never exclusive, so it may always enter them. One with a
   grant neither enters nor stays on what the shared pool keeps of it as yet (`books/lent`).
3. If that leaves no CPU, it is **parked** on the reserved CPUs, so that a swap cannot deadlock.
4. A container that is not live runs nothing yet, and cannot wait when it starts. Its configuration is set to its whole
   grant at once, except CPUs in another *exclusive* container's footprint; without a grant, to the shared pool. A
   configuration that it has already stays. A container whose start was answered counts as live on the CPUs of the
   answer: it may run there already.

With a hand on the cgroups there are **two legs**. A live container that the hand covers is moved by the kernel first
(`WriteCpuset`): all at once, without slots, and that alone is waited for. The order to the engine is the record. It
follows when the write is done, and nothing waits for it; that of a plain newcomer once it has lasted, and those of all
others once an owner that is on its way has arrived (`records`). A container that is not live is answered at its birth
by the standing answers (`newborn_answers`), which rule 4 gives as well.

There are no stages, no rollback and no transaction. Shrinks are always allowed and so go first; growths follow as
confirmations arrive; a failure leaves the rest waiting. Orders are derived from the newest world and never queued: at
most `SLOTS` are outstanding, and each answer causes the next to be planned. So a burst of arrivals costs each shared
container one update.

An order may wait for as long as another program holds its container's lock in the engine. So a slot is held only until
an order is late, and containers that are slow have slots of their own: however many locks are held, they cost no other
container its turn.

Rules for changing this file: only target() decides where a container goes; every order must follow from footprints
alone; the laws in tests/decide/lawbook/laws.py must hold over random histories, and each rule above has a planted fault
in tests/decide/lawbook/test_planted_faults.py that they catch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Final

from sidecar.decide.container.container import Container
from sidecar.decide.container.grip import Guarded, Writing
from sidecar.decide.container.line import Free, Sent
from sidecar.decide.container.machine import after
from sidecar.decide.container.news import OrderSent, WriteSent
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.place import cpus_of
from sidecar.decide.facts import Phase
from sidecar.decide.moves.limits import update_to
from sidecar.decide.moves.newborn_answers import standing_answers
from sidecar.decide.moves.records import awaits_record, having_waited, is_record_alone, records_wait
from sidecar.decide.moves.release import released_to, way_out
from sidecar.decide.moves.settled import awaits_answer, desires, is_there, is_written
from sidecar.decide.moves.signals import signals, stops
from sidecar.decide.moves.starts import answers
from sidecar.decide.moves.target import target
from sidecar.decide.moves.timers import timers
from sidecar.decide.orders import ApplyCpuset, Order, Update, WriteCpuset
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet

SLOTS: Final = 4
"""Orders outstanding at once that are not late. More only add latency in the engine: 50 updates take 0.3 s at 2, 4 and
8 at once. Slow containers have as many of their own. A late order costs the engine only a connection.
"""

SWEEP_SLOTS: Final = 3
"""Of `SLOTS`, those for containers other than newcomers: a newcomer never waits for a slot behind a sweep."""

_SETTLING: Final = (Phase.CREATED, Phase.RESTARTING)
_HOPELESS: Final = (Phase.REMOVING, Phase.DEAD)


Change = tuple[int, int, Container, CPUSet]
"""Urgency, arrival, a container whose CPUs or limits are to change, and its target CPUs.

The urgency is 0 for newcomers, 1 for containers that must leave CPUs, 2 for those that gain some, and 3 for idle ones.
Changes are ordered by urgency, then arrival, which is unique.
"""


def plan(world: World) -> tuple[World, tuple[Order, ...]]:
    """Return the world in which the orders that may be given now are outstanding, and these orders."""
    # First: an answered start may put its container elsewhere than it should be.
    world, answered = answers(world)
    is_placing = world.is_ready and (world.settings.policy is not PolicyName.NONE or world.is_releasing)
    if is_placing and not world.is_releasing:
        # What is at home is left alone from now on, by the hand as well.
        world = _without_those_at_home(world)
    world, told_hand = standing_answers(world)
    if not is_placing:
        return world, (*told_hand, *answered)
    world, written = _writes(world)
    world, updates = _updates(world)
    if world.is_releasing:
        world = _without_the_restored(world)
    # After the answers: a refused start begins a rest, which is timed.
    world, waits = timers(world)
    world, told = signals(world)
    world, stopped = stops(world)
    return world, (*told_hand, *written, *updates, *waits, *told, *stopped, *answered)


def changes(world: World, among: Iterable[Container] | None = None) -> Iterator[Change]:
    """Yield a change for each container, or each of these, that an order would bring nearer to its desired state."""
    reached, where, others_wait = world.reach, desires(world), records_wait(world)
    for container in world.containers.values() if among is None else among:
        key = container.view.key
        if not may_order(container) or world.is_absent(key) or awaits_record(world, container):
            continue
        if others_wait and is_record_alone(world, container):
            continue
        if container.is_by_hand and not isinstance(container.grip, Guarded):
            # Whatever it is to have: the kernel first.
            continue
        if (wanted := where(container)) is None:
            continue
        cpus = target(world, container, wanted, reached)
        if container.is_by_hand and not is_written(container, cpus):
            # The kernel first.
            continue
        has_arrived = is_there(container, cpus)
        if has_arrived and key not in world.state.originals and key not in world.state.assignments:
            # Never changed and granted nothing: its limits are still its own.
            continue
        if has_arrived or container.barred or container.is_strict:
            # Only here, because it is costly: most containers that are merely elsewhere find no slot.
            update = update_to(world, container, cpus)
            is_barred = container.barred is not None and container.barred.update == update
            # An order that is outstanding when a start is held would wait for it, and move the container afterwards.
            if is_barred or (update.leaves_limits and (has_arrived or awaits_answer(world, container))):
                continue
        yield _urgency(container, cpus), container.arrival, container, cpus


def may_order(container: Container) -> bool:
    """Return whether it may be given an order: none is outstanding or paused, and it can be moved at all."""
    return isinstance(container.line, Free) and _is_movable(container)


def _is_movable(container: Container) -> bool:
    """Return whether no start is held, its existence is not disputed, the last look was complete, and it is not being
    removed.
    """
    view = container.view
    if container.is_held or container.is_disputed or view.is_glance:
        return False
    return view.phase not in _HOPELESS


def _is_writable(container: Container) -> bool:
    """Return whether the hand may write it: it needs no look at one that it covers, which may not be possible while
    another program holds its lock.
    """
    if container.view.is_glance:
        return container.is_covered and not container.is_held and not container.is_disputed
    return _is_movable(container)


def _writes(world: World) -> tuple[World, tuple[WriteCpuset, ...]]:
    """Return the world in which all writes that the hand can do now are ordered, and these writes. They carry CPUs
    alone: limits and memory nodes change with the record.
    """
    by_hand = [each for each in world.containers.values() if each.is_by_hand and _is_writable(each)]
    if not by_hand:
        return world, ()
    orders: list[WriteCpuset] = []
    containers, number = dict(world.containers), world.numbers
    reached, where = world.reach, desires(world)
    for container in by_hand:
        key, wanted = container.view.key, where(container)
        if isinstance(container.grip, Writing) or wanted is None or world.is_absent(key):
            continue
        cpus = target(world, container, wanted, reached)
        if is_written(container, cpus):
            continue
        order = WriteCpuset(key, number, Update(cpus=cpus))
        containers[key] = after(container, WriteSent(order))
        orders.append(order)
        number += 1
    return (replace(world, containers=containers, numbers=number) if orders else world), tuple(orders)


def _updates(world: World) -> tuple[World, tuple[ApplyCpuset, ...]]:
    """Return the world with the most urgent changes ordered, and these orders: as many as there are slots for."""
    orders: list[ApplyCpuset] = []
    containers = dict(world.containers)
    state, number = world.state, world.numbers
    urgent, is_none_left = _most_urgent(world)
    is_last_ordered = is_none_left and any(is_record_alone(world, container) for container, _ in urgent)
    world = having_waited(world, is_last_ordered=is_last_ordered)
    for container, cpus in urgent:
        view, update = container.view, update_to(world, container, cpus)
        is_record = container.is_by_hand and container.place.seen == cpus
        order = ApplyCpuset(view.key, number, update, live=not container.is_idle and not is_record)
        state = state.remembering(view.key, originals_of(view))
        if update.nano_cpus not in (None, state.originals[view.key].nano_cpus):
            state = state.lifting(view.key, update.nano_cpus)
        containers[view.key] = after(container, OrderSent(order))
        orders.append(order)
        number += 1
    if orders:
        world = replace(world, containers=containers, state=state, numbers=number)
    return world, tuple(orders)


def _most_urgent(world: World) -> tuple[list[tuple[Container, CPUSet]], bool]:
    """Return the changes for which there are slots, each as a container and its target CPUs, the most urgent first; and
    whether none is left.
    """
    found: list[Change] = []
    is_none_left = True
    for is_patient in (False, True):
        each_lane = [each for each in world.containers.values() if _is_patient(each) is is_patient]
        busy = sum(_holds_slot(each) for each in each_lane)
        if busy >= SLOTS or len(each_lane) == busy:
            is_none_left &= len(each_lane) == busy
            continue
        # With the last slot, newcomers alone are asked: it is theirs.
        asked = each_lane if busy < SWEEP_SLOTS else filter(_is_newcomer, each_lane)
        urgent = nsmallest(SLOTS - busy, changes(world, asked))
        found += [each for place, each in enumerate(urgent, busy) if place < SWEEP_SLOTS or each[0] == 0]
        is_none_left &= busy < SWEEP_SLOTS and len(urgent) < SLOTS - busy
    return [(container, cpus) for _, _, container, cpus in found], is_none_left


def _is_patient(container: Container) -> bool:
    """Return whether its order may wait long: its lock was held before, or its start may be held."""
    return container.is_slow or (container.is_strict and container.is_idle)


def _holds_slot(container: Container) -> bool:
    return isinstance(container.line, Sent) and not container.line.is_late


def _without_the_restored(world: World) -> World:
    """Return the world, during a release, without the originals of containers that are restored, or that are going. The
    shared group is restored last: CPUs may come online that its members have to get back.
    """
    state, group = world.state, world.group and world.group.view.key
    for key in sorted(state.originals, key=lambda each: each == group):
        if key == group and len(state.originals) > 1:
            continue
        container = world.containers.get(key)
        wanted = released_to(world, container) if container and container.order is None else None
        if container is None or wanted is None:
            continue
        if has_all_back(world, container, wanted) or container.view.phase in _HOPELESS:
            state = state.forgetting(key)
    return world if state is world.state else replace(world, state=state)


def _without_those_at_home(world: World) -> World:
    """Return the world without the originals of containers that have left management, or are pinned by hand, and that
    have all of their own back. One whose CPUs are partly offline, or whose limit is above what the engine accepts now,
    goes on waiting; so does one that may be elsewhere too, as until a look after the hand was lost.
    """
    state = world.state
    for key, originals in state.originals.items():
        container = world.containers.get(key)
        if container is None or container.order is not None:
            continue
        if (out := way_out(world, container)) and has_all_back(world, container, out):
            state = state.restored(key)
        if not (home := world.home_of(container)):
            continue
        limits = (container.view.nano_cpus, container.view.cpu_quota) == (originals.nano_cpus, originals.cpu_quota)
        is_whole = home == cpus_of(originals.cpuset, home) and not container.footprint & ~home.mask
        if limits and is_whole and has_all_back(world, container, home):
            state = state.restored(key)
    return world if state is world.state else replace(world, state=state)


def has_all_back(world: World, container: Container, cpus: CPUSet) -> bool:
    """Return whether its CPUs and limits are restored; False if only a glance is known, which does not show them."""
    is_known = is_there(container, cpus) and not container.view.is_glance
    return is_known and update_to(world, container, cpus).leaves_limits


def _is_newcomer(container: Container) -> bool:
    """Return whether it is about to start."""
    return container.is_idle and container.view.phase in _SETTLING


def _urgency(container: Container, cpus: CPUSet) -> int:
    if container.is_idle:
        return 0 if _is_newcomer(container) else 3
    return 1 if container.place.seen.mask & ~cpus.mask else 2
