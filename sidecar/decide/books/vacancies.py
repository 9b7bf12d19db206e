"""Vacancies: what a container leaves to its successor when it is replaced.

A redeploy ends one container and makes another for the same purpose: its successor. It has the same role, which is a
service and number of compose, a task slot of Swarm or a unit of Podman; or it has the same name. It takes over the CPUs
of the other one.

1. While its predecessor holds CPUs, a successor that has not started waits for these: else it would need twice as many.
   From its start on it asks as any other container does, and waits for them only if no others fit. What this machine
   could never serve waits for nothing.
2. The grant of a container that is gone is vacant. A successor that exists, or comes, gets the same CPUs as far as its
   demand and rules allow. Several successors are asked in the order of the queue: only the first is promised CPUs.
3. A vacancy lasts for `linger`, like the grant of a stopped container. If its container had a role, no other container
   is granted its CPUs meanwhile. Only growth and containers that run in the shared pool wait for that: such a vacancy
   ends, if it has no successor, when a container asks that is about to start. Then all are asked in the order of the
   queue. It also ends when other settings leave the shared pool too little beside it. A vacancy without a role keeps no
   CPU from any container, so it does not end before its time.
4. A vacancy ends if its successor is refused all the same.

Labels and names may be chosen by other users. No container loses CPUs by them: only the grant of a container that is
gone, or will never start again, is handed on, and only CPUs that this container held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sidecar.decide.books.grants import ask_of, bounds, fallen_short, keeps, may_hold, misunderstood, never
from sidecar.decide.books.holdings import fewest_for
from sidecar.decide.books.queue import in_turn, is_new_request
from sidecar.decide.books.resting import has_the_same_books, is_refused_alike
from sidecar.decide.books.room import room_in
from sidecar.decide.container.askers import asks_again, is_coming, is_hopeful
from sidecar.decide.container.container import Container
from sidecar.decide.facts import Phase
from sidecar.decide.placement.choose import choose
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment, State
from state.refusal import Refusal, RefusalCode, Replaces

Answer = Callable[[World, State, Container, Demand], State | Refusal]
"""Returns the State after the demand of a container was granted, or why it is refused. A refusal depends on the grants,
and on what `_wanted` returns.
"""

Vacancies = Mapping[ContainerKey, Assignment]

_NONE: Final[Vacancies] = {}

_NOBODY: Final = ContainerKey("", "")


def answered(world: World, state: State, answer: Answer, last: World | None = None) -> State:
    """Return the State after all containers that ask now were answered, in their turn. What was refused in the `last`
    world rests if nothing has changed since (`resting`).
    """
    state = state.keeping(_lasting(world, state))
    while True:
        after = _answered(world, state, answer, last)
        if isinstance(after, State):
            return _told_again(world, state, after, answer)
        # 4. All are asked again, without the vacancy that was of no use.
        state = state.keeping(_without(state.vacancies, after))


def _told_again(world: World, before: State, after: State, answer: Answer) -> State:
    """Return the answered State in which what waits was refused beside all grants of this decision, also those that
    were made after it was asked: the next decision would tell the same.
    """
    if after.assignments is before.assignments or not any(is_hopeful(each) for each in after.refusals.values()):
        return after
    again = _answered(world, after, answer, None)
    return again if isinstance(again, State) and again.assignments == after.assignments else after


def after_refit(world: World, fitted: State) -> State:
    """Return the refitted State with the vacancies of this world; without them if a grant or the CPUs changed. Grants
    were fitted without them: if the shared pool has too little beside both under these settings, those that keep CPUs
    end.
    """
    before = world.state
    is_same = before.assignments == fitted.assignments and before.reserved == fitted.reserved
    kept = fitted.keeping(before.vacancies if is_same and before.online == fitted.online else _NONE)
    if room_in(world, replace(kept, assignments={})).objection(kept.exclusive) is None:
        return kept
    return kept.keeping({key: each for key, each in kept.vacancies.items() if not each.demand.role})


def predecessor(state: State, demand: Demand) -> Assignment | None:
    """Return the grant of another container that this demand's container replaces; None if there is none."""
    return next((each for each in state.assignments.values() if demand.succeeds(each.demand)), None)


def _answered(world: World, state: State, answer: Answer, last: World | None) -> State | ContainerKey:
    """Return the State after one round; instead, the key of a vacancy whose successor was refused."""
    lacking, marks, promised = dict[object, Refusal](), set[object](), set[ContainerKey]()
    asking = in_turn(world, state)
    if state.vacancies:
        # What a successor does not take is free for those that are asked before it.
        state = _with_successors(world, state, asking)
        asking = [each for each in asking if each.view.key not in state.assignments]
    if asking:
        marks.update(*(_marks(each.demand) for each in state.assignments.values()))
    known = last if asking and last and has_the_same_books(last, world, state) else None
    for container in asking:
        demand, grants = container.wish.demand, state.assignments
        if known and is_refused_alike(known, state, container):
            state = _promised_again(world, state, container, promised)
            continue
        if demand is None:
            state = misunderstood(state, container)
            continue
        if left := _left_to(state, demand):
            # 2. What its predecessor left.
            free = state.keeping(_without(state.vacancies, left.container))
            state = _after(world, free, container, demand, answer, {})
            if demand.container not in state.assignments:
                return left.container
            state = _in_its_place(state, demand.container, left)
            lacking, known = {}, None
            marks |= _marks(demand)
            continue
        # 1. What its predecessor still holds.
        before = None if marks.isdisjoint(_marks(demand)) else predecessor(state, demand)
        if before and _has_not_started(container) and not never(world, state, demand, fewest_for(world, demand)):
            state = fallen_short(state, container, demand, _awaits(world, demand, before, promised))
            continue
        state = _after(world, state, container, demand, answer, lacking)
        refused = state.refusals.get(demand.container)
        if before and refused and is_hopeful(refused) and refused.refusal.code is not RefusalCode.CPUS_LOST:
            # That it had CPUs is not forgotten: it is granted some again, whatever becomes of its predecessor.
            state = fallen_short(state, container, demand, _awaits(world, demand, before, promised))
        if state.assignments is not grants:
            lacking, known = {}, None
            marks |= _marks(demand)
    return state


def _with_successors(world: World, state: State, asking: Iterable[Container]) -> State:
    """Return the State in which each successor has what its predecessor left, if that suffices for it."""
    for container in asking:
        demand = container.wish.demand
        if demand is None or (left := _left_to(state, demand)) is None:
            continue
        free = state.keeping(_without(state.vacancies, left.container))
        if taken := _taken_over(world, free, demand, left):
            state = _in_its_place(taken, demand.container, left)
    return state


def _marks(demand: Demand) -> set[object]:
    """Return what a demand has in common with each that it succeeds: at least one of these."""
    marks: set[object] = {("name", demand.name)}
    return marks | {("role", demand.role)} if demand.role else marks


def _after(
    world: World, state: State, container: Container, demand: Demand, answer: Answer, lacking: dict[object, Refusal]
) -> State:
    """Return the State after a demand was granted or refused. `lacking` collects the refusals beside the same grants:
    a demand for the same is refused for the same reason.
    """
    wanted = _wanted(demand)
    known = None if keeps(world, state, container) else lacking.get(wanted)
    found = known or answer(world, state, container, demand)
    if isinstance(found, State):
        return found
    lacking[wanted] = found
    return fallen_short(state, container, demand, found)


def _wanted(demand: Demand) -> object:
    """Return what a demand asks for, without what only names its container."""
    return replace(demand, container=_NOBODY, name="", role="")


def _in_its_place(state: State, key: ContainerKey, left: Assignment) -> State:
    """Return the State in which a successor asked when its predecessor did: it overtakes no container."""
    grant = state.assignments[key]
    return state.holding(replace(grant, asked=min(grant.asked, left.asked)))


def _lasting(world: World, state: State) -> Vacancies:
    """Return the vacancies that do not end now: all; those without a role or with a successor if a container asks that
    starts.
    """
    if not state.vacancies:
        return _NONE
    asking = [each.wish.demand for each in world.containers.values() if _asks(state, each) and each.wish.demand]
    claimed = {
        key: each for key, each in state.vacancies.items() if any(demand.succeeds(each.demand) for demand in asking)
    }
    # 3. A container that starts.
    is_wanted = any(
        (container.is_idle or is_new_request(state, container))
        and not any(demand.succeeds(each.demand) for each in claimed.values())
        for container in in_turn(world, state)
        if (demand := container.wish.demand) and not (_has_not_started(container) and predecessor(state, demand))
    )
    if not is_wanted:
        return state.vacancies
    return {key: each for key, each in state.vacancies.items() if key in claimed or not each.demand.role}


def _asks(state: State, container: Container) -> bool:
    """Return whether it is to be answered before it starts again. What shares until then is no successor."""
    key = container.view.key
    refused = state.refusals.get(key)
    return key not in state.assignments and is_coming(container) and (not refused or asks_again(container, refused))


def _left_to(state: State, demand: Demand) -> Assignment | None:
    """Return the vacancy for the container of this demand, that of the newest grant; None if there is none."""
    left = (each for each in state.vacancies.values() if demand.succeeds(each.demand))
    return max(left, key=lambda each: each.since, default=None)


def _taken_over(world: World, state: State, demand: Demand, left: Assignment) -> State | None:
    """Return the State in which a demand is granted what its predecessor left, or as much of it as it may hold; None if
    that is not lawful, or too little. CPUs to which a container was pinned by hand meanwhile are not granted again.
    """
    most, rest = bounds(world, demand)[1], left.cpus - world.strangers
    cpus: CPUSet | Refusal = rest
    if len(rest) > most:
        accept = room_in(world, state).objection
        cpus = choose(world.topology, rest, ask_of(world, demand, most), accept=accept)
    if not isinstance(cpus, CPUSet) or not may_hold(world, state, demand, cpus):
        return None
    if world.settings.policy is not PolicyName.DYNAMIC:
        return state.granted(demand, cpus)
    is_its_own = len(left.original) == demand.floor and left.original <= cpus
    return state.granted(
        demand, cpus, left.original if is_its_own else packed(world.topology, cpus, demand.floor) or cpus
    )


def _has_not_started(container: Container) -> bool:
    return container.view.phase is Phase.CREATED and not container.is_held


def _awaits(world: World, demand: Demand, before: Assignment, promised: set[ContainerKey]) -> Refusal:
    """Return the refusal of a successor: with the CPUs that it will get, none if these are too few, or `promised` to
    another successor, which is before it. What it is told is promised from now on.
    """
    is_first = before.container not in promised
    promised.add(before.container)
    rest, (least, most) = before.cpus - world.strangers if is_first else EMPTY, bounds(world, demand)
    cpus = choose(world.topology, rest, ask_of(world, demand, most)) if len(rest) > most else rest
    if not isinstance(cpus, CPUSet) or len(cpus) < least:
        cpus = EMPTY
    return Refusal(RefusalCode.AWAITS_PLACE, Replaces(before.name, cpus))


def _promised_again(world: World, state: State, container: Container, promised: set[ContainerKey]) -> State:
    """Return the State in which a successor that rests is told what it gets: another one before it may have gone."""
    demand, refused = container.wish.demand, state.refusals[container.view.key]
    before = predecessor(state, demand) if demand and refused.refusal.code is RefusalCode.AWAITS_PLACE else None
    if demand is None or before is None:
        return state
    return fallen_short(state, container, demand, _awaits(world, demand, before, promised))


def _without(vacancies: Vacancies, key: ContainerKey) -> Vacancies:
    return {each: left for each, left in vacancies.items() if each != key}
