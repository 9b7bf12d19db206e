"""What all granting policies share: departures, the demands to answer and their order, and the CPUs for a demand."""

from __future__ import annotations

from typing import Final

from sidecar.decide.books.room import room_in
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.swarm_task import is_over
from sidecar.decide.container.terms import Terms
from sidecar.decide.facts import Phase
from sidecar.decide.placement.choose import Ask, choose
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from sidecar.natural_order import natural
from state.cpuset import CPUSet
from state.model import Demand, Refused, Shortage, State
from state.refusal import NAMES, Neighbours, Refusal, RefusalCode

_COMING: Final = (Phase.CREATED, Phase.RESTARTING)


def may_hold(world: World, state: State, demand: Demand, cpus: CPUSet) -> bool:
    """Return whether exactly these CPUs could be granted to this demand: a lawful number, all free, placed by its
    rules, and a sufficient shared pool left.
    """
    least, most = bounds(world, demand)
    if not least <= len(cpus) <= most or not cpus <= state.assignable - world.strangers:
        return False
    accept = room_in(world, state).objection
    found = choose(world.topology, cpus, ask_of(world, demand, len(cpus)), accept=accept)
    return found == cpus


def bounds(world: World, demand: Demand) -> tuple[int, int]:
    """Return the fewest and the most CPUs that a grant of this demand may hold. They differ only under `dynamic`."""
    if world.settings.policy is PolicyName.DYNAMIC:
        return demand.floor, demand.ceiling
    return demand.cpus, demand.cpus


def departures(world: World) -> State:
    """Return the State without the grants and refusals that have ended.

    A grant ends when its container is gone, or has been idle for longer than it may linger. A Swarm task that is over
    does not linger. A refusal ends when its container stops: the next start asks again.
    """
    state = world.state
    for key in [*state.assignments, *state.refusals]:
        container = world.containers.get(key)
        if container is None:
            state = state.forgetting(key)
        elif has_ended(container, is_granted=key in state.assignments):
            state = state.released(key)
    return state


def has_ended(container: Container, *, is_granted: bool) -> bool:
    """Return whether a grant or a refusal has ended although its container exists."""
    if is_granted:
        return container.wish.demand is None or (container.is_idle and (container.is_lapsed or is_over(container.view)))
    return not _is_coming(container)


def askers(world: World, state: State) -> list[Container]:
    """Return the containers to be answered now, in order. Usually there are none, so the common path is one pass."""
    waiting = [
        container
        for container in world.containers.values()
        if (container.wish.demand is not None or container.wish.refusal is not None)
        and container.wish.standing is not Standing.UNMANAGED
        and container.view.key not in state.assignments
        and _is_coming(container)
        and (container.view.key not in state.refusals or _waits(state.refusals[container.view.key]))
    ]
    # Containers that keep their CPUs come first: they ran before the sidecar did. Then the order of arrival.
    return sorted(waiting, key=lambda each: (not keeps(world, state, each), each.arrival))


def misunderstood(state: State, container: Container) -> State:
    """Return the State with a refusal of a container whose labels cannot be understood."""
    wish, view = container.wish, container.view
    refusal = wish.refusal or Refusal(RefusalCode.BAD_LABEL)
    return state.refused(Refused(container=view.key, name=view.name, refusal=refusal))


def fallen_short(state: State, demand: Demand, refusal: Refusal) -> State:
    """Return the State with a demand refused for lack of CPUs. A container that lost its CPUs keeps that reason, with
    what is missing now.
    """
    before = state.refusals.get(demand.container)
    refusal = refusal.after(before.refusal) if before else refusal
    return state.refused(Refused(container=demand.container, name=demand.name, refusal=refusal, demand=demand))


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
    strangers = world.strangers & state.assignable
    found = choose(
        world.topology,
        state.assignable - strangers,
        ask_of(world, demand, count),
        accept=room_in(world, state).objection,
    )
    if isinstance(found, CPUSet):
        return found
    return with_facts(found, neighbours=_neighbours(world, state, strangers))


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
    holders = sorted((assignment.name for assignment in state.assignments.values()), key=natural)
    names: list[str] = []
    if strangers:
        by_hand = (c.view.name for c in world.containers.values() if c.wish.standing is Standing.STRANGER)
        names = sorted(by_hand, key=natural)
    return Neighbours(
        reserved=state.reserved,
        held=len(state.exclusive),
        holders=len(holders),
        holder_names=tuple(holders[:NAMES]),
        taken=len(strangers),
        stranger_names=tuple(names[:NAMES]),
    )


def keeps(world: World, state: State, container: Container) -> bool:
    """Return whether a container with a demand already runs on CPUs of its own that may be granted to it.

    If the sidecar changed its cpuset, it has none of its own: without a grant, the sidecar put it into the shared pool.
    """
    demand, key = container.wish.demand, container.view.key
    if demand is None or not container.view.cpuset or key in world.state.originals:
        return False
    return may_hold(world, state, demand, container.place.seen)


def _is_coming(container: Container) -> bool:
    """Return whether it runs or is about to start. A stopped container asks when it starts."""
    return not container.is_idle or container.is_held or (container.view.phase in _COMING and not container.is_lapsed)


def _waits(refused: Refused) -> bool:
    """Return whether it is tried again in each decision: it chose to wait, or it lost CPUs that may come back."""
    is_lost = refused.refusal.code is RefusalCode.CPUS_LOST
    return refused.demand is not None and (is_lost or refused.demand.shortage is Shortage.WAIT)


def options_of(world: World, demand: Demand) -> tuple[str, ...]:
    """Return the placement options of a demand: its own, or the node's."""
    return Terms(world.settings, demand).options
