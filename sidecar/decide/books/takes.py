"""The take-away protocol as books: what leaves a grant, until when it may stay, and what ends the waiting.

1. CPUs that a grant loses stand in its `leaving`, with a number. The container may stay on them, and nobody else enters
   them for as long as its footprint touches them: that is the plan's rule, not this file's.
2. They are due once the workload acknowledged them, once their grace is over (then the take is *forced*, and counted),
   or at once where nothing runs that could be told. From then on the plan orders the container off.
3. What its footprint no longer touches is not leaving any more.
4. What it gains while something is leaving comes out of that first: a growth cancels.
5. A further shrink is a take of its own: what was leaving before goes when its own grace is over. An acknowledgement is
   one of all that is leaving.

Whose grace may begin, and when it is over, is for `moves/timers`.
"""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.facts import TakeAcknowledged
from sidecar.decide.world import World, replace
from state.cause import Cause
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.model import KEPT_MOVES, Assignment, Leaving, Move, State


def held(assignment: Assignment, container: Container) -> CPUSet:
    """Where an exclusive container should run now: its grant, and what is leaving it for as long as it may stay there.

    What it has left already it does not enter again.
    """
    leaving = assignment.leaving
    if leaving is None or container.is_idle:
        return assignment.cpus
    return assignment.cpus | (leaving.waiting & container.place.seen)


def changed(state: State, key: ContainerKey, cause: Cause, *, gained: CPUSet = EMPTY, lost: CPUSet = EMPTY) -> State:
    """The books after a grant gained and lost CPUs. What it loses is leaving; what it gains may have been."""
    was = state.assignments[key]
    # 4. What is gained is not leaving any more.
    leaving = was.leaving.within(was.leaving.cpus - gained) if was.leaving else None
    if lost:
        # 5. The rest goes on beside the new take.
        old, due, earlier = (leaving.cpus, leaving.due, leaving.batches) if leaving else (EMPTY, EMPTY, ())
        leaving = Leaving(cpus=old | lost, number=state.takes, cause=cause, due=due, earlier=earlier)
    layers = tuple(part for layer in was.layers if (part := layer - lost))
    made = replace(
        was,
        cpus=(was.cpus - lost) | gained,
        layers=(*layers, gained) if gained else layers,
        leaving=leaving,
        cooling=state.takes if gained else was.cooling,
        moves=(*was.moves, Move(gained=gained, lost=lost, cause=cause))[-KEPT_MOVES:],
    )
    return replace(state.holding(made), takes=state.takes + 1)


def exchanged(state: State, key: ContainerKey, cpus: CPUSet, original: CPUSet, cause: Cause) -> State:
    """The books after a grant moved to other CPUs, as many, its original set too."""
    gained, lost = cpus - state.assignments[key].cpus, state.assignments[key].cpus - cpus
    state = changed(state, key, cause, gained=gained, lost=lost)
    rest = cpus - original
    return state.holding(replace(state.assignments[key], original=original, layers=(rest,) if rest else ()))


def without_ended_takes(world: World, state: State) -> State:
    """The books in which nothing is leaving that was left; and what nobody can be told of is due."""
    for key, assignment in state.assignments.items():
        leaving, container = assignment.leaving, world.containers.get(key)
        if leaving is None or container is None:
            continue
        # 3. What it is off.
        rest = leaving.within(CPUSet.from_mask(container.footprint))
        if rest and container.is_idle:
            # 2. Nothing runs.
            rest = rest.over(rest.number)
        if rest != leaving:
            state = state.holding(replace(assignment, leaving=rest))
    return state


def after_acknowledgement(world: World, fact: TakeAcknowledged) -> World:
    """The world once a workload said that it has left; an acknowledgement of another take says nothing."""
    assignment = world.state.assignments.get(fact.container)
    if assignment is None or assignment.leaving is None or assignment.leaving.is_due:
        return world
    if assignment.leaving.number != fact.number:
        return world
    state = world.state.holding(replace(assignment, leaving=assignment.leaving.over(fact.number)))
    return replace(world, state=replace(state, acknowledged=state.acknowledged + 1))


def grace_over(world: World, key: ContainerKey, number: int) -> World:
    """The world once the grace of a take is over; of another take than those that are waited for, it says nothing."""
    assignment = world.state.assignments.get(key)
    leaving = assignment.leaving if assignment else None
    if assignment is None or leaving is None or number not in [each.number for each in leaving.batches]:
        return world
    state = world.state.holding(replace(assignment, leaving=leaving.over(number), forced=assignment.forced + 1))
    return replace(world, state=replace(state, forced=state.forced + 1))
