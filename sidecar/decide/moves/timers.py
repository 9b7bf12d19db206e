"""Timers: a timer runs if and only if the world calls for it.

A container may have a timer for the end of a rest or of the vacancy that it left (`LINGER`), for the grace before CPUs
are taken (`GRACE`), for cooling down after a growth (`COOLDOWN`), and for records that wait for a newcomer (`RECORD`).
Each has a number; the end of a timer with another number is ignored. When the sidecar restarts, all timers start again:
each duration is a minimum.

How long a notice, a rest or a vacancy lasts is promised when it begins. The promise stands in the State, so that it
holds whatever the settings say later, and after a restart too.

Only this module and the removal of a container write `World.timers`, and only this module writes promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sidecar.decide.books.takes import grace_over
from sidecar.decide.container.container import Container
from sidecar.decide.container.machine import after, rests
from sidecar.decide.container.news import Lapsed, Lasted
from sidecar.decide.container.start import Answered, Held
from sidecar.decide.container.terms import Terms
from sidecar.decide.facts import Phase, Purpose, TimerEnded
from sidecar.decide.moves.records import RECORD_SECONDS, awaits_record, is_owner_to_come
from sidecar.decide.orders import StartTimer
from sidecar.decide.world import World, replace, without
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.leaving import Batch
from state.model import Assignment, Rest

START_SECONDS: Final = 10.0
"""Seconds for which a created container keeps its CPUs at least. `linger` may be 0, and its start follows its creation,
also when an image has to be unpacked or a dependency to become healthy first.
"""

NOTHING_BEGUN: Final = -1
"""Less than the number of any take. Takes are numbered from 0."""


def timers(world: World) -> tuple[World, tuple[StartTimer, ...]]:
    """Return the world in which exactly the timers run that it calls for, and the timers to start now."""
    orders: list[StartTimer] = []
    running: dict[ContainerKey, Mapping[Purpose, int]] = {}
    for key, assignment in sorted(world.state.assignments.items(), key=lambda item: item[1].since):
        container, leaving, cooling = world.containers.get(key), assignment.leaving, assignment.cooling
        if container is None:
            # Its engine was not reached yet: all is timed in full once it was looked at.
            continue
        rests_now = is_resting(container)
        if not rests_now and leaving is None and cooling is None:
            continue
        before = world.timers.get(key, {})
        now: dict[Purpose, int] = {}
        if rests_now:
            now[Purpose.LINGER] = number = before.get(Purpose.LINGER, world.numbers)
            if number == world.numbers:
                rest = _rest_of(world, assignment, container)
                orders.append(StartTimer(key, Purpose.LINGER, number, rest.seconds))
                assignment = replace(assignment, rest=rest)
                world = replace(world, numbers=number + 1, state=world.state.holding(assignment))
        if leaving is not None and (batches := leaving.batches):
            begun = before.get(Purpose.GRACE, NOTHING_BEGUN)
            for batch in _that_begin(container, batches, begun):
                seconds = notice_of(world, assignment, batch)
                orders.append(StartTimer(key, Purpose.GRACE, batch.number, seconds))
                leaving, begun = leaving.announced(batch.number, seconds), batch.number
            if leaving != assignment.leaving:
                world = replace(world, state=world.state.holding(replace(assignment, leaving=leaving)))
            if begun != NOTHING_BEGUN:
                now[Purpose.GRACE] = begun
        if cooling is not None:
            now[Purpose.COOLDOWN] = cooling
            if before.get(Purpose.COOLDOWN) != cooling:
                orders.append(StartTimer(key, Purpose.COOLDOWN, cooling, world.settings.cooldown_seconds))
        if now:
            running[key] = now
    for key in sorted(world.state.vacancies):
        number = world.timers.get(key, {}).get(Purpose.LINGER, world.numbers)
        running[key] = {Purpose.LINGER: number}
        if number == world.numbers:
            vacancy = world.state.vacancies[key]
            rest = vacancy.rest or Rest(seconds=world.settings.linger_seconds)
            orders.append(StartTimer(key, Purpose.LINGER, number, rest.seconds))
            vacancies = {**world.state.vacancies, key: replace(vacancy, rest=rest)}
            world = replace(world, numbers=number + 1, state=world.state.keeping(vacancies))
    for key, container in world.containers.items():
        if container.is_young and (awaits_record(world, container) or is_owner_to_come(world, container)):
            number = world.timers.get(key, {}).get(Purpose.RECORD, world.numbers)
            running[key] = {**running.get(key, {}), Purpose.RECORD: number}
            if number == world.numbers:
                orders.append(StartTimer(key, Purpose.RECORD, number, RECORD_SECONDS))
                world = replace(world, numbers=number + 1)
    return (world if running == world.timers else replace(world, timers=running)), tuple(orders)


def with_rests_over(world: World) -> World:
    """Return the world in which a rest of no length is over, without a timer: with `linger` at 0 what ended keeps its
    CPUs from no decision.
    """
    for key in world.state.assignments:
        container = world.containers.get(key)
        grant = world.state.assignments[key]
        if container is not None and is_resting(container) and not _rest_of(world, grant, container).seconds:
            world = world.with_container(after(container, Lapsed()))
    return world


def after_timer(world: World, fact: TimerEnded) -> World:
    """Return the world after a timer ended; unchanged if another timer has replaced it."""
    key, container = fact.container, world.containers.get(fact.container)
    if key in world.state.vacancies and world.timers.get(key, {}).get(Purpose.LINGER) == fact.number:
        return replace(world, state=world.state.keeping(without(world.state.vacancies, key)))
    if container is None:
        return world
    match fact.purpose:
        case Purpose.LINGER:
            if world.timers.get(key, {}).get(Purpose.LINGER) != fact.number:
                return world
            # It runs no more, whatever it was for: the grant may have ended meanwhile, and another begins.
            world = _without_rest(world, key)
            return world.with_container(after(container, Lapsed())) if key in world.state.assignments else world
        case Purpose.RECORD:
            is_running = world.timers.get(fact.container, {}).get(Purpose.RECORD) == fact.number
            return world.with_container(after(container, Lasted())) if is_running else world
        case Purpose.GRACE:
            return grace_over(world, fact.container, fact.number)
        case Purpose.COOLDOWN:
            assignment = world.state.assignments.get(fact.container)
            if assignment is None or assignment.cooling != fact.number:
                return world
            return replace(world, state=world.state.holding(replace(assignment, cooling=None)))


def interrupted(world: World, key: ContainerKey, before: Container | None = None) -> World:
    """Return the world without the `LINGER` timer of a container whose rest has ended: the next is timed in full.

    Where it is as it was `before`, at rest, but was started in between, a run was too short to be looked at.
    """
    container, running = world.containers.get(key), world.timers.get(key, {})
    if container is None or Purpose.LINGER not in running:
        return world
    known = before.view if before and not before.view.is_glance else container.view
    has_run = known.started_at != container.view.started_at
    if rests(container.view) and not container.is_held and not has_run:
        return world
    return _without_rest(world, key)


def _rest_of(world: World, grant: Assignment, container: Container) -> Rest:
    """Return how long a container that does not run keeps its CPUs: as promised when this rest began, if it did."""
    started, linger = container.view.started_at, world.settings.linger_seconds
    if grant.rest is not None and grant.rest.started_at == started:
        return grant.rest
    least = START_SECONDS if container.view.phase is Phase.CREATED else 0.0
    return Rest(seconds=max(linger, least), started_at=started)


def notice_of(world: World, assignment: Assignment, take: Batch) -> float:
    """Return the seconds of notice of a take from a grant: as announced, or else as it would be now."""
    return _notice_of(world, assignment, take.notice_seconds)


def longest_notice(world: World, assignment: Assignment, cpus: CPUSet) -> float:
    """Return the seconds of notice of the take that may last longest, of those that concern these CPUs; 0 if none is
    waited for.
    """
    takes = assignment.leaving.batches if assignment.leaving else ()
    return max((notice_of(world, assignment, each) for each in takes if each.cpus & cpus), default=0.0)


def _notice_of(world: World, assignment: Assignment, promised: float | None) -> float:
    return Terms(world.settings, assignment.demand).grace_seconds if promised is None else promised


def is_resting(container: Container) -> bool:
    """Return whether it waits for a start that may never come, and may still keep its CPUs. A container whose start is
    held, or answered and under way, does not rest. One that was only glanced at may be starting: an earlier sidecar may
    have answered.
    """
    is_starting = isinstance(container.start, Held | Answered) or container.view.is_glance
    return rests(container.view) and not container.is_lapsed and not is_starting


def _that_begin(container: Container, batches: Sequence[Batch], begun: int) -> Iterator[Batch]:
    """Yield the takes whose grace may begin, in order.

    The grace of a take does not begin while its CPUs are still on their way to the container: they are not reported
    until they are certain, so the grace would begin before the notice. Later takes wait too: they begin in their order.
    """
    for batch in batches:
        if batch.cpus.mask & container.coming & ~container.sure.mask:
            return
        if batch.number > begun:
            yield batch


def _without_rest(world: World, key: ContainerKey) -> World:
    """Return the world without the `LINGER` timer of a container, and what that promised to its grant."""
    grant = world.state.assignments.get(key)
    if grant is not None and grant.rest is not None:
        world = replace(world, state=world.state.holding(replace(grant, rest=None)))
    running = without(world.timers.get(key, {}), Purpose.LINGER)
    return replace(world, timers={**world.timers, key: running} if running else without(world.timers, key))
