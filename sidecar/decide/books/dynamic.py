"""The policy `dynamic`: exclusive CPUs that grow and shrink while a container runs, between its floor and its ceiling.

1. Grants and refusals end as under `static`; what was leaving and has left is nobody's memory any more.
2. Who asks is granted at least its floor, in the order of arrival: out of what is free, or else of what others have
   above their fair size, or else, for the floor alone, of all that others have above their floors. Nobody is pushed
   below its floor: then it is refused.
3. Everybody gets the size that is fair (`sizes`), keeping what it has (`gains_and_losses`). Where CPUs of the right
   kind are not to be had, nobody else gives anything up for them.
4. Where something was released, or on command, containers that allow it exchange CPUs for better ones (`exchanges`).

The books jump to where everybody should be, at once. What is taken in them may still be in use: it is leaving, and the
plan lets nobody enter it (`takes`). So a policy that was asked twice changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sidecar.decide.books.exchanges import defragmented
from sidecar.decide.books.gains_and_losses import gained, given_up, is_bound
from sidecar.decide.books.grants import (
    askers,
    departures,
    fallen_short,
    keeps,
    misunderstood,
    place,
    unless_only_told_anew,
)
from sidecar.decide.books.size_causes import Events, why_gained, why_lost
from sidecar.decide.books.sizes import sizes, unit_of
from sidecar.decide.books.takes import changed, held, without_ended_takes
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.world import World, replace
from state.cause import TakenOver
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.model import Demand, State
from state.refusal import Refusal
from state.topology import Topology


class DynamicPolicy:
    """Whole CPUs, as many as is fair, and never fewer than the floor."""

    name = "dynamic"

    def settle(self, world: World) -> State:
        """The books after the four rules above."""
        # 1. Departures.
        state = without_ended_takes(world, departures(world))
        was_released = any(key not in state.assignments for key in world.state.assignments)
        # 2. Arrivals.
        arrived: list[Demand] = []
        for container in askers(world, state):
            state = _answer(world, state, container)
            if container.wish.demand and container.view.key in state.assignments:
                arrived.append(container.wish.demand)
        # 3. Fair sizes.
        state = _shared_out(world, state, Events(arrived=tuple(each.name for each in arrived)))
        # 4. Better CPUs.
        if was_released or world.is_defragmenting:
            state = defragmented(world, state)
        state = _without_takes_from_arrivals(world, state)
        return unless_only_told_anew(world.state, state)

    def desired(self, world: World, container: Container) -> CPUSet | None:
        """Its grant and what it may still stay on, or what of the shared pool nobody is leaving."""
        if container.wish.standing is not Standing.MANAGED:
            return None
        assignment = world.state.assignments.get(container.view.key)
        if assignment:
            return held(assignment, container)
        return world.state.vacated


def _without_takes_from_arrivals(world: World, state: State) -> State:
    """The books in which nothing is leaving a grant that did not hold it before this decision: that a container runs
    somewhere among all others is no right to stay there.
    """
    for key, each in state.assignments.items():
        if each.leaving is None:
            continue
        before, container = world.state.assignments.get(key), world.containers.get(key)
        if before is not None:
            had = before.cpus | (before.leaving.cpus if before.leaving else EMPTY)
        else:
            had = container.place.seen if container and keeps(world, world.state, container) else EMPTY
        if each.leaving.cpus - had:
            state = state.holding(replace(each, leaving=each.leaving.within(had)))
    return state


def _answer(world: World, state: State, container: Container) -> State:
    demand = container.wish.demand
    if demand is None:
        return misunderstood(state, container)
    if keeps(world, state, container):
        return _granted(world.topology, state, demand, container.place.seen)
    # 2. The fair size first, from those who have more than theirs; then the floor, from whoever is above its own.
    fair = sizes(world, state, {}, demand)
    wanted = fair.pop(demand.container)
    least = min(demand.floor + -demand.floor % unit_of(world, demand), demand.cpus)
    found: CPUSet | Refusal | None = None
    for count, trial in _trials(world.topology, state, fair, dict.fromkeys((wanted, least))):
        found = place(world, trial, demand, count)
        if isinstance(found, CPUSet):
            return _granted(world.topology, _without(state, found, demand), demand, found)
    assert isinstance(found, Refusal)
    if any(len(each.cpus) > each.demand.floor for each in state.assignments.values()):
        found = with_facts(found, at_floors=True)
    return fallen_short(state, demand, found)


def _trials(
    topology: Topology, state: State, fair: dict[ContainerKey, int], counts: Iterable[int]
) -> Iterator[tuple[int, State]]:
    """What to try for an arrival, in order: so many CPUs, out of these books. The last count is its floor."""
    counts = list(counts)
    for count in counts:
        yield count, state
        yield count, _shrunk_to(topology, state, fair)
    yield counts[-1], _shrunk_to(topology, state, {key: each.demand.floor for key, each in state.assignments.items()})


def _granted(topology: Topology, state: State, demand: Demand, cpus: CPUSet) -> State:
    """The books after a grant: its original set is the best packed part of it, as large as its floor."""
    return state.granted(demand, cpus, packed(topology, cpus, demand.floor) or cpus)


def _without(state: State, cpus: CPUSet, demand: Demand) -> State:
    """The books once whoever holds any of these CPUs has given them up for somebody who arrived."""
    for key, each in sorted(state.assignments.items(), key=lambda item: item[1].since):
        if lost := each.cpus & cpus:
            cause = TakenOver(name=each.name, count=len(lost), floor=each.demand.floor, arrived=demand.name)
            state = changed(state, key, cause, lost=lost)
    return state


def _shrunk_to(topology: Topology, state: State, targets: dict[ContainerKey, int]) -> State:
    """The books with whoever is above its target at its target. Only for looking: nobody is told why."""
    for key, each in state.assignments.items():
        if (surplus := len(each.cpus) - targets[key]) > 0:
            state = state.holding(replace(each, cpus=each.cpus - given_up(topology, each, surplus)))
    return state


def _shared_out(world: World, state: State, events: Events) -> State:
    """The books with everybody at the size that is fair.

    Who could not be given what is fair, for want of CPUs of the right kind, is capped at what it got, and the sizes are
    computed anew: so nobody gives up CPUs that nobody can use.
    """
    caps: dict[ContainerKey, int] = {}
    while True:
        targets = sizes(world, state, caps)
        growing = [each for each in state.assignments.values() if targets[each.container] > len(each.cpus)]
        trial = _all_shrunk(world, state, targets, replace(events, grew=tuple(each.name for each in growing)))
        short: dict[ContainerKey, int] = {}
        # Those who can use few CPUs choose before those who can use any.
        for each in sorted(growing, key=lambda a: (not is_bound(world, a), a.since, a.name)):
            extra = gained(world, trial, each, targets[each.container] - len(each.cpus))
            if len(each.cpus) + len(extra) < targets[each.container]:
                short[each.container] = len(each.cpus) + len(extra)
            if extra:
                trial = changed(trial, each.container, why_gained(world, each, len(extra)), gained=extra)
        if not short:
            return trial
        caps.update(short)


def _all_shrunk(world: World, state: State, targets: dict[ContainerKey, int], events: Events) -> State:
    shrinking = [each for each in state.assignments.values() if targets[each.container] < len(each.cpus)]
    for each in sorted(shrinking, key=lambda each: each.since):
        lost = given_up(world.topology, each, len(each.cpus) - targets[each.container])
        if lost:
            state = changed(state, each.container, why_lost(world, each, len(lost), events), lost=lost)
    return state
