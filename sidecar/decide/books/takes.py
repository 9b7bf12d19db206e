"""The take protocol in the State: which CPUs are leaving a grant, how long it may stay on them, and what ends a take.

1. CPUs that a grant loses are recorded in its `leaving`, with a number. The container may stay on them, and no other
   enters them while its footprint touches them: that is the plan's rule, not this file's.
2. They are due when the workload acknowledges the take, when the grace is over (the take is then *forced*, and
   counted), or at once if nothing that could be notified runs or is about to start. From then on the plan orders the
   container off.
3. CPUs that its footprint no longer touches are not leaving any more. Of a container whose start is held that is the
   footprint before its answer (`following`): it runs nothing, and starts on its grant. What an order may bring after
   that start, nothing that the answer waits for may wait for: the shared pool would keep CPUs of the grant until then.
4. CPUs that it gains again are not leaving any more: a growth cancels a take.
5. What was not in force yet when it was lost is not leaving: the container never had it as its own.
6. A further shrink is a take of its own: CPUs that were leaving before are due when their own grace is over. An
   acknowledgement covers all leaving CPUs.

`moves/timers` decides which grace may begin, and when it is over.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.decide.books.grants import keeps
from sidecar.decide.container.askers import is_coming
from sidecar.decide.container.container import Container
from sidecar.decide.facts import TakeAcknowledged
from sidecar.decide.following import footprint_before_what_follows
from sidecar.decide.world import World, replace
from state.cause import Cause
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey
from state.leaving import Leaving
from state.model import KEPT_MOVES, Assignment, Move, State


def held(assignment: Assignment, container: Container) -> CPUSet:
    """Return where an exclusive container should run now: its grant, and leaving CPUs while it may stay on them.

    It does not enter CPUs again that it has already left: one that does not run is where it would start, which is known
    by what the hand answers. If that is elsewhere than its own, as before its first order, it has none to stay on: an
    order onto leaving CPUs would enter them.
    """
    leaving = assignment.leaving
    if leaving is None or is_inert(container):
        return assignment.cpus
    if container.is_idle and not container.is_starting:
        would_start = container.written
        is_elsewhere = not would_start <= assignment.cpus | leaving.cpus
        return assignment.cpus if is_elsewhere else assignment.cpus | (leaving.waiting & would_start)
    return assignment.cpus | (leaving.waiting & container.present)


def is_inert(container: Container) -> bool:
    """Return whether it runs nothing that could be notified, and is not about to: an order to one that is about to
    start may land after its start, and take CPUs without notice. One whose runtime asks is about to start from the
    answer until nothing about it is in doubt.
    """
    if not container.is_strict:
        return container.is_idle and not is_coming(container)
    return container.is_idle and (container.is_held or not container.is_doubtful)


def changed(state: State, key: ContainerKey, cause: Cause, *, gained: CPUSet = EMPTY, lost: CPUSet = EMPTY) -> State:
    """Return the State after a grant gained and lost CPUs. Lost CPUs are leaving; gained ones may have been leaving."""
    was = state.assignments[key]
    # 4. Gained CPUs are not leaving any more.
    leaving = was.leaving.within(was.leaving.cpus - gained) if was.leaving else None
    if lost:
        # 6. Earlier takes continue next to the new one.
        old, due, earlier = (leaving.cpus, leaving.due, leaving.batches) if leaving else (EMPTY, EMPTY, ())
        # Its notice is promised when it is announced (`moves/timers`).
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


def taken_for(state: State, key: ContainerKey, parts: Sequence[tuple[CPUSet, Cause]]) -> State:
    """Return the State after a grant lost CPUs for several reasons: one take, and each part with its own reason."""
    moves = state.assignments[key].moves
    state = changed(state, key, parts[-1][1], lost=union(cpus for cpus, _ in parts))
    moves += tuple(Move(lost=cpus, cause=cause) for cpus, cause in parts)
    return state.holding(replace(state.assignments[key], moves=moves[-KEPT_MOVES:]))


def exchanged(state: State, key: ContainerKey, cpus: CPUSet, original: CPUSet, cause: Cause) -> State:
    """Return the State after a grant moved to these CPUs, as many as before, with this original set."""
    gained, lost = cpus - state.assignments[key].cpus, state.assignments[key].cpus - cpus
    state = changed(state, key, cause, gained=gained, lost=lost)
    rest = cpus - original
    return state.holding(replace(state.assignments[key], original=original, layers=(rest,) if rest else ()))


def without_ended_takes(world: World, state: State) -> State:
    """Return the State without leaving CPUs that are vacated, and with the takes of idle containers due."""
    for key, assignment in state.assignments.items():
        leaving, container = assignment.leaving, world.containers.get(key)
        if leaving is None or container is None:
            continue
        # 3. Vacated.
        rest = leaving.within(CPUSet.from_mask(footprint_before_what_follows(container)))
        if rest and is_inert(container):
            # 2. Nothing runs that could be notified.
            rest = rest.over(rest.number)
        if rest != leaving:
            state = state.holding(replace(assignment, leaving=rest))
    return state


def with_takes_at_rest_due(world: World, state: State) -> State:
    """Return the State with the takes of idle containers due also while no engine is ready: the next birth of one is
    answered without these CPUs, and a run that is found later is not told a second time that they are leaving. What
    belongs to an engine that is not reached may have started unseen.
    """
    if world.is_releasing:
        return state
    for key, assignment in state.assignments.items():
        leaving, container = assignment.leaving, world.containers.get(key)
        if leaving is None or container is None or world.is_away(key) or not is_inert(container):
            continue
        # 2. Nothing runs that could be notified.
        if (due := leaving.over(leaving.number)) != leaving:
            state = state.holding(replace(assignment, leaving=due))
    return state


def without_takes_of_what_was_not_its_own(world: World, state: State) -> State:
    """Return the State without takes of CPUs that were not a grant's own before this decision: it did not hold them,
    another container was still leaving them, the shared pool kept them as yet, or it had not entered them yet.

    A container that runs somewhere among all others has no right to stay there.
    """
    for key, each in state.assignments.items():
        if each.leaving is None:
            continue
        before, container = world.state.assignments.get(key), world.containers.get(key)
        if before is not None:
            had = (before.cpus - world.state.leaving - world.state.lent) | (
                before.leaving.cpus if before.leaving else EMPTY
            )
        else:
            had = container.place.seen if container and keeps(world, world.state, container) else EMPTY
        if container is not None:
            had &= CPUSet.from_mask(footprint_before_what_follows(container))
        # 5. Not in force yet.
        if each.leaving.cpus - had:
            state = state.holding(replace(each, leaving=each.leaving.within(had)))
    return state


def without_takes_of_what_only_came(before: State, world: World) -> World:
    """Return the world without takes of CPUs that, before all of the present news, another container was still leaving,
    or the shared pool kept as yet: also where that ended with the same news (5).
    """
    state = world.state
    for key, each in state.assignments.items():
        if each.leaving is None or key not in before.assignments:
            continue
        others = union(left.cpus for at, was in before.assignments.items() if at != key and (left := was.leaving))
        own = before.assignments[key].leaving
        never = (each.leaving.cpus - (own.cpus if own else EMPTY)) & (others | before.lent)
        if never:
            state = state.holding(replace(each, leaving=each.leaving.within(each.leaving.cpus - never)))
    return world if state is world.state else replace(world, state=state)


def after_acknowledgement(world: World, fact: TakeAcknowledged) -> World:
    """Return the world after a workload acknowledged a take; unchanged if the take is not the current one."""
    assignment = world.state.assignments.get(fact.container)
    if assignment is None or assignment.leaving is None or assignment.leaving.is_due:
        return world
    if assignment.leaving.number != fact.number:
        return world
    state = world.state.holding(replace(assignment, leaving=assignment.leaving.over(fact.number)))
    return replace(world, state=replace(state, acknowledged=state.acknowledged + 1))


def grace_over(world: World, key: ContainerKey, number: int) -> World:
    """Return the world after the grace of a take is over, and of no other: one before it may have been promised more.
    Unchanged if that take is not pending.
    """
    assignment = world.state.assignments.get(key)
    leaving = assignment.leaving if assignment else None
    over = [each.cpus for each in leaving.batches if each.number == number] if leaving else []
    if assignment is None or leaving is None or not over:
        return world
    left = leaving.due_on(union(over))
    state = world.state.holding(replace(assignment, leaving=left, forced=assignment.forced + 1))
    return replace(world, state=replace(state, forced=state.forced + 1))
