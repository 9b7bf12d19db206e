"""What all policies that grant share: who leaves, who is to be answered and in what order, and what may be given."""

from __future__ import annotations

from typing import Final

from sidecar.decide.books.room import room_in
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.swarm_task import is_over
from sidecar.decide.container.terms import Terms
from sidecar.decide.facts import Phase
from sidecar.decide.placement.choose import Ask, choose
from sidecar.decide.placement.options import FULL_PCPUS_ONLY
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.model import Demand, Refused, Shortage, State
from state.refusal import NAMES, Neighbours, Refusal, RefusalCode

_COMING: Final = (Phase.CREATED, Phase.RESTARTING)


def may_hold(world: World, state: State, demand: Demand, cpus: CPUSet) -> bool:
    """Whether these very CPUs could be granted to this demand: as many, free, placed by its rules, and leaving a shared
    pool.
    """
    least, most = bounds(world, demand)
    if not least <= len(cpus) <= most or not cpus <= state.assignable - world.strangers:
        return False
    accept = room_in(world, state).objection
    found = choose(world.topology, cpus, ask_of(world, demand, len(cpus)), reserved=state.reserved, accept=accept)
    return found == cpus and (
        FULL_PCPUS_ONLY not in options_of(world, demand) or cpus == world.topology.whole_cores(cpus)
    )


def bounds(world: World, demand: Demand) -> tuple[int, int]:
    """How few and how many CPUs a grant of this demand may hold; only under `dynamic` do they differ."""
    if world.settings.policy is PolicyName.DYNAMIC:
        return demand.floor, demand.ceiling
    return demand.cpus, demand.cpus


def departures(world: World) -> State:
    """The books without those that are gone, or were idle for too long.

    A grant ends when its container is gone, or has not run for as long as it may linger: a task of Swarm, for no
    time at all. A refusal ends when its container stops: its next start asks anew.
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
    """Whether a grant or a refusal is over although its container exists."""
    if is_granted:
        return container.wish.demand is None or (container.is_idle and (container.is_lapsed or is_over(container.view)))
    return not _is_coming(container)


def askers(world: World, state: State) -> list[Container]:
    """Who is to be answered now, in order. Mostly nobody, so the common path is one pass."""
    waiting = [
        container
        for container in world.containers.values()
        if (container.wish.demand is not None or container.wish.refusal is not None)
        and container.wish.standing is not Standing.UNMANAGED
        and container.view.key not in state.assignments
        and _is_coming(container)
        and (container.view.key not in state.refusals or _waits(state.refusals[container.view.key]))
    ]
    # Those that keep what they have come first: they ran before the sidecar did. Then the order of arrival.
    return sorted(waiting, key=lambda each: (not keeps(world, state, each), each.arrival))


def misunderstood(state: State, container: Container) -> State:
    """The books once a container was refused whose labels cannot be understood."""
    wish, view = container.wish, container.view
    refusal = wish.refusal or Refusal(RefusalCode.BAD_LABEL)
    return state.refused(Refused(container=view.key, name=view.name, refusal=refusal))


def fallen_short(state: State, demand: Demand, refusal: Refusal) -> State:
    """The books once a demand was refused for want of CPUs."""
    return state.refused(Refused(container=demand.container, name=demand.name, refusal=refusal, demand=demand))


def unless_only_told_anew(before: State, after: State) -> State:
    """The later books; the earlier ones where nothing differs but who has what was refused.

    Who waits is refused anew in every decision. If neither it nor what is free for it changed, its refusal stands as it
    was told first, so that the books need not be written for it.
    """
    if after.refusals is before.refusals or after.refusals.keys() != before.refusals.keys():
        return after
    if not all(_is_like(each, before.refusals[key]) for key, each in after.refusals.items()):
        return after
    return before if replace(after, refusals=before.refusals) == before else after


def _is_like(refused: Refused, earlier: Refused) -> bool:
    return replace(refused, refusal=earlier.refusal) == earlier and refused.refusal.is_like(earlier.refusal)


def place(world: World, state: State, demand: Demand, count: int) -> CPUSet | Refusal:
    """So many CPUs for a demand out of what is assignable and not a stranger's, or why not."""
    strangers = world.strangers & state.assignable
    found = choose(
        world.topology,
        state.assignable - strangers,
        ask_of(world, demand, count),
        reserved=state.reserved,
        accept=room_in(world, state).objection,
    )
    if isinstance(found, CPUSet):
        return found
    return with_facts(found, neighbours=_neighbours(world, state, strangers))


def ask_of(world: World, demand: Demand, count: int) -> Ask:
    """How so many CPUs for a demand should lie on this node: by its own options and rules, or the node's."""
    terms = Terms(world.settings, demand)
    return Ask(
        count=count,
        options=terms.options,
        numa=terms.numa,
        isolated=world.settings.isolated,
        near=demand.near,
    )


def _neighbours(world: World, state: State, strangers: CPUSet) -> Neighbours:
    """Return what holds the other CPUs, in parentheses; "" if that is not known."""
    holders = sorted(assignment.name for assignment in state.assignments.values())
    names: list[str] = []
    if strangers:
        names = sorted(c.view.name for c in world.containers.values() if c.wish.standing is Standing.STRANGER)
    return Neighbours(
        reserved=state.reserved,
        held=len(state.exclusive),
        holders=len(holders),
        holder_names=tuple(holders[:NAMES]),
        taken=len(strangers),
        stranger_names=tuple(names[:NAMES]),
    )


def keeps(world: World, state: State, container: Container) -> bool:
    """Whether a container that asks runs on CPUs of its own already, and may be granted these.

    Where the sidecar changed its cpuset, it has none of its own: without a grant it was put into the shared pool.
    """
    demand, key = container.wish.demand, container.view.key
    if demand is None or not container.view.cpuset or key in world.state.originals:
        return False
    return may_hold(world, state, demand, container.place.seen)


def _is_coming(container: Container) -> bool:
    """Whether it runs, or is about to: a stopped container asks when it starts."""
    return not container.is_idle or container.is_held or (container.view.phase in _COMING and not container.is_lapsed)


def _waits(refused: Refused) -> bool:
    return refused.demand is not None and refused.demand.shortage is Shortage.WAIT


def options_of(world: World, demand: Demand) -> tuple[str, ...]:
    """The placement options of a demand: its own, or the node's."""
    return Terms(world.settings, demand).options
