"""The policy `dynamic`: exclusive CPUs that grow and shrink while a container runs, between its floor and its ceiling.

1. Grants and refusals end as under `static`. CPUs that a container has left are no longer recorded as leaving. A grant
   gives up CPUs above its floor on which a container was pinned by hand. Under full-pcpus-only an original set lies on
   no more cores than the floor comes to (`original_set`), before and after all else.
2. Each demand is granted at least its floor, in the order of the queue: from free CPUs, else from what other grants
   have above their fair size, else, for the floor alone, from all that other grants have above their floors
   (`arrivals`). No grant is pushed below its floor: the demand is refused instead. So is one that requires whole
   cores, if its number does not come to these.
3. Each grant gets its fair size (`sizes`) and keeps CPUs that it has (`gains_and_losses`). If no CPUs of the right kind
   are available, no other grant gives anything up. Cores that a grant has in part, since CPUs went offline, give way to
   whole ones if it does not come to its size otherwise. What the shared pool lacks of CPUs that it can have, grants
   give up first, and below their fair size too.
4. After a release, or on command, containers that allow it exchange CPUs for better ones (`exchanges`).

The State changes to its final form at once. CPUs taken in it may still be in use: they are leaving, and the plan lets
no other container enter them (`takes`). So a second call of the policy changes nothing.
"""

from __future__ import annotations

from functools import partial

from sidecar.decide.books.arrivals import Arrivals, without
from sidecar.decide.books.exchanges import defragmented
from sidecar.decide.books.gains_and_losses import gained, given_up, is_bound
from sidecar.decide.books.grants import (
    departures,
    is_in_whole_units,
    keeps,
    never,
    no_multiple,
    options_of,
    unless_only_told_anew,
    with_neighbours,
)
from sidecar.decide.books.load_wish import with_measured
from sidecar.decide.books.original_set import layered, with_original_sets_on_cores
from sidecar.decide.books.pinned import claimed_by_pins, off_the_pinned
from sidecar.decide.books.replacing import in_whole_cores
from sidecar.decide.books.room import room_in
from sidecar.decide.books.size_causes import Events, losses, why_gained, why_lost
from sidecar.decide.books.sizes import (
    Claims,
    above_their_ceilings,
    core_for,
    least_for,
    least_of,
    most_of,
    sizes,
    unit_for,
)
from sidecar.decide.books.takers import with_true_takers
from sidecar.decide.books.takes import (
    changed,
    held,
    taken_for,
    without_ended_takes,
    without_takes_of_what_was_not_its_own,
)
from sidecar.decide.books.vacancies import answered
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.whole_cores import is_by_cores, rounded_up
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cause import ByItsRules, Cause
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment, State
from state.refusal import Refusal
from state.topology import Topology


class DynamicPolicy:
    """Whole CPUs, as many as is fair, and never fewer than the floor."""

    name = "dynamic"

    def settle(self, world: World, last: World | None = None) -> State:
        """Return the State after the four rules above."""
        # 1. Departures.
        state = with_original_sets_on_cores(world, without_ended_takes(world, departures(world)))
        was_released = any(key not in state.assignments for key in world.state.assignments)
        held_before = state.exclusive
        state = off_the_pinned(world, state)
        pinned = claimed_by_pins(world) & (held_before - state.exclusive)
        # 2. Arrivals.
        before, arrivals = state.grants, Arrivals(world)
        state = answered(world, state, partial(_answer, arrivals), last)
        arrived = sorted((each.since, each.name) for each in state.assignments.values() if each.since >= before)
        # 3. Fair sizes.
        events = Events(arrived=tuple(name for _, name in arrived), pinned=pinned)
        state = _shared_out(world, state, events, arrivals.claims)
        # 4. Better CPUs.
        if was_released or world.state.has_gaps or world.is_defragmenting:
            better = defragmented(world, state)
            if better.assignments is not state.assignments:
                # What moved together may have made room for one that waits.
                better = answered(world, better, partial(_answer, Arrivals(world)))
            state = better
        state = with_true_takers(world.state, with_original_sets_on_cores(world, state))
        state = with_measured(world, without_takes_of_what_was_not_its_own(world, state))
        state = with_neighbours(world, state, arrivals.at_floors)
        return unless_only_told_anew(world.state, state)

    def desired(self, world: World, container: Container) -> CPUSet | None:
        """Return its grant and the leaving CPUs that it may still use; without a grant, the vacated part of the pool.

        None for a container that the sidecar does not place.
        """
        if container.wish.standing is not Standing.MANAGED:
            return None
        assignment = world.state.assignments.get(container.view.key)
        if assignment:
            return held(assignment, container)
        return world.pool_for(container, world.state.vacated)


def within_ceilings(world: World) -> State:
    """Return the State in which no grant is above its ceiling. A ceiling that was lowered counts at once, also while
    nothing can be settled, because no engine is ready.
    """
    state = world.state
    above = above_their_ceilings(world, state) if world.settings.policy is PolicyName.DYNAMIC else ()
    if not above:
        return state
    grants = state.assignments.items()
    targets = {key: most_of(world, each) if key in above else len(each.cpus) for key, each in grants}
    return without_takes_of_what_was_not_its_own(world, _all_shrunk(world, state, targets, Events()))


def _answer(arrivals: Arrivals, world: World, state: State, container: Container, demand: Demand) -> State | Refusal:
    if refusal := no_multiple(world, state, demand):
        return refusal
    if keeps(world, state, container):
        return _granted(world.topology, state, demand, container.place.seen)
    # 2. From free CPUs, or from other grants.
    found = arrivals.found_for(state, demand)
    if isinstance(found, Refusal):
        return never(world, state, demand, least_for(world, demand)) or found
    return _granted(world.topology, without(world, state, found, demand), demand, found)


def _granted(topology: Topology, state: State, demand: Demand, cpus: CPUSet) -> State:
    """Return the State after a grant, whose original set is its best packed part, as large as its floor."""
    return state.granted(demand, cpus, packed(topology, cpus, demand.floor) or cpus)


def _shared_out(world: World, state: State, events: Events, claims: Claims) -> State:
    """Return the State with each grant at its fair size.

    A grant that cannot reach its fair size for lack of CPUs of the right kind is capped at what it got, and all sizes
    are computed again. So no grant gives up CPUs that no other can use.
    """
    caps: dict[ContainerKey, int] = {}
    while True:
        targets = sizes(claims, state, caps)
        growing = [each for each in state.assignments.values() if targets[each.container] > len(each.cpus)]
        trial = _all_shrunk(world, state, targets, replace(events, grew=tuple(each.name for each in growing)))
        short: dict[ContainerKey, int] = {}
        # Grants that can use few CPUs choose before those that can use any.
        for each in sorted(growing, key=lambda a: (not is_bound(world, a), a.since, a.name)):
            trial = _grown(world, trial, each, targets[each.container])
            if (size := len(trial.assignments[each.container].cpus)) < targets[each.container]:
                short[each.container] = size
        if not short:
            return _with_enough_in_the_pool(world, trial, events)
        caps.update(short)


def _grown(world: World, state: State, grant: Assignment, target: int) -> State:
    """Return the State with a grant as close to its target as the free CPUs allow. A core that it has in part gives way
    to a whole one if the grant reaches its target only so.
    """
    cpus = grant.cpus
    found = cpus | gained(world, state, grant, target - len(cpus))
    for size in range(target, len(found), -1):
        if whole := in_whole_cores(world, state, grant, size):
            cause = ByItsRules() if grant.ordered is None else why_gained(world, grant, size - len(cpus))
            return _in_whole_cores(world, state, grant, whole, cause)
    if found == cpus:
        return state
    return changed(state, grant.container, why_gained(world, grant, len(found) - len(cpus)), gained=found - cpus)


def _all_shrunk(world: World, state: State, targets: dict[ContainerKey, int], events: Events) -> State:
    shrinking = [each for each in state.assignments.values() if targets[each.container] < len(each.cpus)]
    for each in sorted(shrinking, key=lambda each: each.since):
        count = len(each.cpus) - targets[each.container]
        # What the pool needs comes first: it cannot have isolated CPUs.
        first = _given_to_the_pool(world, state, each, count)
        is_whole = is_by_cores(options_of(world, each.demand)) and not _is_odd(world, each, targets[each.container])
        lost = first | given_up(world.topology, each, count - len(first), is_whole=is_whole, but=first)
        if len(lost) < count and not first:
            found = in_whole_cores(world, state, each, targets[each.container])
            if found and found <= each.cpus:
                cause = why_lost(world, each, len(each.cpus) - len(found), events)
                state = _in_whole_cores(world, state, each, found, cause)
                continue
        if lost:
            state = taken_for(state, each.container, losses(world, each, lost, events))
    return state


def _is_odd(world: World, grant: Assignment, size: int) -> bool:
    """Return whether a size is no number of whole cores, as a ceiling that was lowered under other options may be."""
    return not is_in_whole_units(world, grant.demand) and size % core_for(world, grant.demand, grant.cpus) > 0


def _in_whole_cores(world: World, state: State, grant: Assignment, cpus: CPUSet, cause: Cause) -> State:
    """Return the State with a grant on these whole cores. Its original set is another one if it gave up some of it."""
    made = changed(state, grant.container, cause, gained=cpus - grant.cpus, lost=grant.cpus - cpus)
    return made if grant.original <= cpus else made.holding(layered(world, made.assignments[grant.container], cpus))


def _with_enough_in_the_pool(world: World, state: State, events: Events) -> State:
    """Return the State in which grants above their floors gave up what the pool lacks. Sizes count CPUs, and some that
    are left over may be of no use to it.
    """
    if not room_in(world, state).lack:
        return state
    for each in sorted(state.assignments.values(), key=lambda each: each.since):
        if lost := _given_to_the_pool(world, state, each, len(each.cpus) - least_of(world, each)):
            state = taken_for(state, each.container, losses(world, each, lost, events))
    return state


def _given_to_the_pool(world: World, state: State, assignment: Assignment, most: int) -> CPUSet:
    """Return what a grant gives up, at most so many CPUs, of what the pool lacks; none if it lacks none."""
    lacking = room_in(world, state).lack
    if not lacking or most <= 0:
        return EMPTY
    count = rounded_up(lacking, unit_for(world, assignment.demand, assignment.cpus), most=most)
    is_whole = is_by_cores(options_of(world, assignment.demand))
    return given_up(world.topology, assignment, count, is_whole=is_whole, but=state.isolated)
