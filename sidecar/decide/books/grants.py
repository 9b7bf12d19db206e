"""What all granting policies share: departures, refusals, and the CPUs for a demand."""

from __future__ import annotations

from collections.abc import Callable

from sidecar.decide.books.offline import offline_in_the_way
from sidecar.decide.books.room import room as room_of
from sidecar.decide.books.room import room_in
from sidecar.decide.container.askers import is_asking, is_waiting, rests_as_released
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.stamps import is_later
from sidecar.decide.container.swarm_task import is_over
from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.choose import Ask, choose
from sidecar.decide.placement.shortfall import largest_fitting, only_fitting, with_facts
from sidecar.decide.placement.whole_cores import is_by_cores, unit_of
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from sidecar.natural_order import natural
from state.cpuset import EMPTY, CPUSet, union
from state.demand import Demand
from state.key import ContainerKey
from state.model import Refused, State
from state.refusal import (
    NAMES,
    Asked,
    CutCore,
    Neighbours,
    NoMultiple,
    PoolEmptied,
    Refusal,
    RefusalCode,
    Scattered,
    TooFew,
    TooFewWholeCores,
)


def may_hold(world: World, state: State, demand: Demand, cpus: CPUSet) -> bool:
    """Return whether exactly these CPUs could be granted to this demand: a lawful number, all free, placed by its
    rules, and a sufficient shared pool left.
    """
    least, most = bounds(world, demand)
    if not least <= len(cpus) <= most or not cpus <= state.assignable - world.strangers:
        return False
    if no_multiple(world, state, demand):
        return False
    accept = room_in(world, state).objection
    found = choose(world.topology, cpus, ask_of(world, demand, len(cpus)), accept=accept)
    return found == cpus


def no_multiple(world: World, state: State, demand: Demand) -> Refusal | None:
    """Return why a demand is refused that requires whole cores, and whose number does not come to these; None if it
    does, or requires none, or if the machine has cores of another width that make up this number.
    """
    return None if is_in_whole_units(world, demand) else never(world, state, demand, demand.cpus)


def is_in_whole_units(world: World, demand: Demand) -> bool:
    """Return whether the number of a demand comes to whole units: to whole cores, if its options require these."""
    return demand.cpus % unit_of(world.topology, options_of(world, demand)) == 0


def bounds(world: World, demand: Demand) -> tuple[int, int]:
    """Return the fewest and the most CPUs that a grant of this demand may hold. They differ only under `dynamic`."""
    if world.settings.policy is PolicyName.DYNAMIC:
        return demand.floor, demand.ceiling
    return demand.cpus, demand.cpus


def departures(world: World) -> State:
    """Return the State without the grants and refusals that have ended.

    A grant ends when its container is gone, or has been idle for longer than it may linger. A Swarm task that is over
    does not linger: its CPUs are vacant at once. A refusal stands until the container is granted CPUs, is gone, or asks
    for none; a release by people stands then, too.
    """
    state = world.state
    for key in [*state.assignments, *state.refusals]:
        if world.is_absent(key):
            # It may exist although it is not known, and cannot be ordered off its CPUs.
            continue
        container = world.containers.get(key)
        if container is None:
            state = state.forgetting(key)
        elif key in state.refusals:
            state = _still_refused(state, container)
        elif has_ended(container):
            state = _released(state, container)
    return state


def _released(state: State, container: Container) -> State:
    """Return the State without the grant of a container that exists, vacant if it was for a task that is over."""
    key = container.view.key
    if is_over(container.view) and state.assignments[key].demand.role:
        return state.vacated_by(key)
    return state.released(key)


def has_ended(container: Container) -> bool:
    """Return whether a grant has ended although its container exists."""
    return container.wish.demand is None or (container.is_idle and (container.is_lapsed or is_over(container.view)))


def _still_refused(state: State, container: Container) -> State:
    """Return the State without the refusal of a container that asks for nothing any more, unless people released its
    CPUs: that lasts until its next start. Else with its start, if the refusal was made without a look at it.
    """
    refused = known = state.refusals[container.view.key]
    if refused.started_at is None or _ran_when_released(container, refused):
        refused = replace(refused, started_at=container.view.started_at)
    if not is_asking(container) and not rests_as_released(container, refused):
        return state.released(container.view.key)
    return state if refused is known else state.refused(refused)


def _ran_when_released(container: Container, refused: Refused) -> bool:
    """Return whether people released its CPUs after its present start, which was perhaps not seen then."""
    started = container.view.started_at
    return bool(refused.released_at and started) and not is_later(started, refused.released_at)


def misunderstood(state: State, container: Container) -> State:
    """Return the State with a refusal of a container whose labels cannot be understood."""
    wish, view = container.wish, container.view
    refusal = wish.refusal or Refusal(RefusalCode.BAD_LABEL)
    refused = Refused(container=view.key, name=view.name, refusal=refusal, started_at=view.started_at)
    return state.refused(refused)


def fallen_short(state: State, container: Container, demand: Demand, refusal: Refusal) -> State:
    """Return the State with the demand of a container refused for lack of CPUs. A container that lost its CPUs keeps
    that reason, with what is missing now.
    """
    view, before = container.view, state.refusals.get(demand.container)
    refusal = refusal.after(before.refusal) if before else refusal
    return state.refused(
        Refused(container=view.key, name=demand.name, refusal=refusal, demand=demand, started_at=view.started_at)
    )


def unless_only_told_anew(before: State, after: State) -> State:
    """Return `after`, or `before` if they differ only in which containers hold the CPUs that a demand was refused.

    A waiting container is refused again in every decision. While neither its demand nor the free CPUs change, its first
    refusal stands, so that no new checkpoint has to be written.
    """
    if after.refusals is before.refusals or after.refusals.keys() != before.refusals.keys():
        return after
    if not all(_is_like(each, before.refusals[key]) for key, each in after.refusals.items()):
        return after
    return before if replace(after, refusals=before.refusals) == before else after


def _is_like(refused: Refused, earlier: Refused) -> bool:
    return replace(refused, refusal=earlier.refusal) == earlier and refused.refusal.is_like(earlier.refusal)


def place(world: World, state: State, demand: Demand, count: int) -> CPUSet | Refusal:
    """Return `count` CPUs for a demand, out of the assignable CPUs that no stranger uses, or why there are none."""
    found = _chosen(world, state, demand, count)
    if isinstance(found, CPUSet):
        return found
    return with_facts(found, neighbours=_neighbours(world, state, world.strangers & state.assignable))


def placed(world: World, state: State, demand: Demand, count: int) -> CPUSet | None:
    """Return the same CPUs as `place`; None if there are none, which is faster than to say why."""
    if len(state.assignable - world.strangers) < count:
        return None
    found = _chosen(world, state, demand, count)
    return found if isinstance(found, CPUSet) else None


def _chosen(world: World, state: State, demand: Demand, count: int) -> CPUSet | Refusal:
    free, ask = state.assignable - world.strangers, ask_of(world, demand, count)
    accept = room_in(world, state).objection
    found = choose(world.topology, free, ask, accept=accept)
    stuck = world.stuck_beside(demand.container)
    if isinstance(found, Refusal) or stuck.isdisjoint(found):
        return found
    # Rather CPUs where the container can be alone. Whether there are any for it does not depend on what is stuck.
    apart = choose(world.topology, free - stuck, ask, accept=accept)
    return apart if isinstance(apart, CPUSet) else found


def never(world: World, state: State, demand: Demand, count: int) -> Refusal | None:
    """Return why `count` CPUs for a demand, or more up to its own number, could not be granted even without any other
    container; None if they could: a larger number may use more NUMA nodes.

    The refusal says the most that could be, if fewer could, and which CPUs are offline if these may be the reason.
    """
    empty = replace(state, assignments={}, vacancies={})
    room = room_of(world.topology, world.settings, empty)

    def found(number: int) -> CPUSet | Refusal:
        ask = ask_of(world, demand, number)
        return choose(world.topology, empty.assignable, ask, accept=room.objection)

    refusal = found(count)
    if isinstance(refusal, CPUSet):
        return None
    if isinstance(refusal.detail, TooFew) and isinstance(all_of_them := found(len(empty.assignable)), Refusal):
        # More than there are, and what has to stay shared limits even these: that is the reason to tell.
        refusal = with_facts(all_of_them, count=count)
    options = options_of(world, demand)
    spare = len(room.spare(by_cores=is_by_cores(options)))
    most = min(count - 1, spare)
    unit = unit_of(world.topology, options)

    def fits(number: int) -> bool:
        return isinstance(found(number), CPUSet)

    if any(map(fits, range(count + unit, min(demand.cpus, spare) + 1, unit))):
        return None
    # A number that is no multiple of a core's threads fails for that, whatever the most is.
    if isinstance(refusal.detail, NoMultiple):
        refusal = only_fitting(refusal, unit, fits)
    else:
        fitting = largest_fitting(most, unit, fits)
        refusal = with_facts(refusal, would_fit=(fitting,) if fitting else ())
    hoped = offline_in_the_way(world, empty, demand, count, refusal)
    # The most is that of the CPUs online, for good or not; a multiple is not about them.
    offline = hoped or (EMPTY if isinstance(refusal.detail, NoMultiple) else world.topology.offline)
    return with_facts(refusal, is_final=not hoped, offline=offline, neighbours=Neighbours(reserved=empty.reserved))


def ask_of(world: World, demand: Demand, count: int) -> Ask:
    """Return the request for `count` CPUs of a demand, with its own options and rules or else the node's."""
    terms = Terms(world.settings, demand)
    return Ask(
        count=count,
        options=terms.options,
        numa=terms.numa,
        isolated=world.settings.isolated,
        near=demand.near,
    )


def _neighbours(world: World, state: State, strangers: CPUSet) -> Neighbours:
    """Return which containers use the other CPUs, as facts of a refusal."""
    # Vacant CPUs are kept for the successor of the container that had them.
    kept = [each for each in state.vacancies.values() if each.demand.role]
    holders = sorted({each.name for each in (*state.assignments.values(), *kept)}, key=natural)
    names: list[str] = []
    if strangers:
        known = world.containers.values()
        by_hand = [c for c in known if c.wish.standing is Standing.STRANGER or (c.wish.pin and not c.is_idle)]
        names = sorted((each.view.name for each in by_hand), key=natural)
    return Neighbours(
        reserved=state.reserved,
        held=len(state.exclusive | state.vacant),
        holders=len(holders),
        holder_names=tuple(holders[:NAMES]),
        taken=len(strangers),
        stranger_names=tuple(names[:NAMES]),
    )


def with_neighbours(world: World, state: State, counted: Callable[[State], State]) -> State:
    """Return the State in which those of the queue, and those that this decision refused, are told the neighbours that
    they have in it, if it is another than before: a container that rests was told earlier. `counted` returns the State
    in which free CPUs are counted: beside grants at their floors. The queue is told that if some of these are granted.
    """
    is_same = state.assignments is world.state.assignments and state.refusals is world.state.refusals
    if is_same or not state.refusals:
        return state
    told, beside = dict[ContainerKey, Refused](), counted(state)
    neighbours = _neighbours(world, beside, world.strangers & beside.assignable)
    above = state.exclusive - beside.exclusive
    for key, refused in state.refusals.items():
        detail, container, before = refused.refusal.detail, world.containers.get(key), world.state.refusals.get(key)
        if not isinstance(detail, Asked) or detail.neighbours is None or detail.is_of_the_machine or container is None:
            continue
        is_new = before is None or before.refusal is not refused.refusal
        waits = is_waiting(container, refused)
        if is_new or waits:
            # What does not wait was told what was so when it asked: whether others grew in that decision, or in the
            # next, is chance.
            at_floors = bool(counted_free(detail, beside) & above) if waits else detail.at_floors
            refusal = with_facts(refused.refusal, neighbours=neighbours, at_floors=at_floors)
            told[key] = replace(refused, refusal=refusal)
    return replace(state, refusals={**state.refusals, **told}) if told else state


def counted_free(detail: Asked, state: State) -> CPUSet:
    """Return the CPUs that a refusal in this State calls free, or shared."""
    match detail:
        case TooFew() | TooFewWholeCores() | CutCore() | Scattered():
            return union(part.cpus for part in detail.free)
        case PoolEmptied():
            return state.shared
        case _:
            return EMPTY


def keeps(world: World, state: State, container: Container) -> bool:
    """Return whether a container with a demand already runs on CPUs of its own that may be granted to it.

    If the sidecar changed its cpuset, it has none of its own: without a grant, the sidecar put it into the shared pool.
    """
    demand, cpuset = container.wish.demand, container.view.cpuset
    before = world.state.originals.get(container.view.key)
    if demand is None or not cpuset or (before is not None and before.cpuset != cpuset):
        return False
    return may_hold(world, state, demand, container.place.seen)


def options_of(world: World, demand: Demand) -> tuple[str, ...]:
    """Return the placement options of a demand: its own, or the node's."""
    return Terms(world.settings, demand).options
