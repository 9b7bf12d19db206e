"""The policy `static`: the kubelet's rules. Exclusive CPUs for as long as the container stands, nobody is ever moved.

1. A grant ends when its container is gone, or has not run for as long as it may linger.
2. A refusal ends when its container stops: its next start asks anew.
3. Who asks, is granted or refused, in the order of arrival; but a container that already runs on CPUs that it may
   lawfully hold keeps them, and is served first (it ran before the sidecar did).
4. Who was refused and chose to wait, is tried again whenever CPUs are free.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.facts import Phase
from sidecar.decide.options import FULL_PCPUS_ONLY
from sidecar.decide.placement.choose import Ask, choose
from sidecar.decide.placement.pool import emptied
from sidecar.decide.placement.shortfall import Shortfall
from sidecar.decide.world import Container, Standing, World, replace
from state.cpuset import CPUSet
from state.model import Demand, Refusal, RefusalCode, Shortage, State

_COMING: Final = (Phase.CREATED, Phase.RESTARTING)


class StaticPolicy:
    """Whole CPUs, granted once and kept."""

    name = "static"

    def settle(self, world: World) -> State:
        """The books after the four rules above."""
        state = _departures(world)
        for container in _askers(world, state):
            state = _answer(world, state, container)
        return state

    def desired(self, world: World, container: Container) -> CPUSet | None:
        """Its grant, or the shared pool."""
        if container.wish.standing is not Standing.MANAGED:
            return None
        assignment = world.state.assignments.get(container.view.id)
        return assignment.cpus if assignment else world.state.shared


def may_hold(world: World, state: State, demand: Demand, cpus: CPUSet) -> bool:
    """Whether these very CPUs could be granted to this demand: as many, free, and leaving a shared pool."""
    return (
        len(cpus) == demand.cpus
        and cpus <= state.assignable - world.strangers
        and _emptied(world, state, cpus) is None
        and (FULL_PCPUS_ONLY not in _options(world, demand) or cpus == world.topology.whole_cores(cpus))
    )


def _departures(world: World) -> State:
    state = world.state
    for id in [*state.assignments, *state.refusals]:
        container = world.containers.get(id)
        # 1. and 2. Gone, or idle for too long.
        if container is None:
            state = state.forgetting(id)
        elif _has_ended(container, is_granted=id in state.assignments):
            state = state.released(id)
    return state


def _has_ended(container: Container, *, is_granted: bool) -> bool:
    """Whether a grant or a refusal is over although its container exists."""
    if is_granted:
        return container.wish.demand is None or (container.is_idle and container.has_lingered)
    return not _is_coming(container)


def _askers(world: World, state: State) -> list[Container]:
    """Who is to be answered now, in order. Mostly nobody, so the common path is one pass."""
    waiting = [
        container
        for container in world.containers.values()
        if (container.wish.demand is not None or container.wish.trouble is not None)
        and container.wish.standing is not Standing.UNMANAGED
        and container.view.id not in state.assignments
        and _is_coming(container)
        and (container.view.id not in state.refusals or _waits(state.refusals[container.view.id]))
    ]
    # 3. Those that keep what they have come first, then the order of arrival.
    return sorted(waiting, key=lambda each: (not _keeps(world, state, each), each.arrival))


def _answer(world: World, state: State, container: Container) -> State:
    wish, view = container.wish, container.view
    if wish.demand is None:
        code = wish.trouble or RefusalCode.BAD_LABEL
        return state.refused(Refusal(container=view.id, name=view.name, code=code, reason=wish.reason))
    # 3. What it has, if it may keep it.
    if _keeps(world, state, container):
        return state.granted(wish.demand, container.seen)
    found = place(world, state, wish.demand)
    if isinstance(found, CPUSet):
        return state.granted(wish.demand, found)
    return state.refused(
        Refusal(container=view.id, name=view.name, code=found.code, reason=found.reason, demand=wish.demand)
    )


def place(world: World, state: State, demand: Demand) -> CPUSet | Shortfall:
    """CPUs for a demand out of what is assignable and not a stranger's, or why not."""
    strangers = world.strangers & state.assignable
    found = choose(
        world.topology,
        state.assignable - strangers,
        ask_of(world, demand),
        reserved=state.reserved,
        accept=lambda cpus: _emptied(world, state, cpus),
    )
    if isinstance(found, CPUSet):
        return found
    said = found.reason + _why(world, state, strangers) + (f"; {found.cure}" if found.cure else "")
    return replace(found, reason=said)


def ask_of(world: World, demand: Demand) -> Ask:
    """What a demand asks for on this node: its own options and rules, or the node's."""
    settings = world.settings
    return Ask(
        count=demand.cpus,
        options=_options(world, demand),
        numa=settings.numa if demand.numa is None else demand.numa,
        isolated=settings.isolated,
        near=demand.near,
    )


def _emptied(world: World, state: State, cpus: CPUSet) -> Shortfall | None:
    """Why these CPUs may not be given: where all is given by whole cores, and no reserved CPU is shared, one stays."""
    by_cores = state.strict and FULL_PCPUS_ONLY in world.settings.options
    return emptied(world.topology, state.shared, cpus, keep=world.settings.shared_min, by_cores=by_cores)


def _why(world: World, state: State, strangers: CPUSet) -> str:
    """Who has the rest."""
    parts = [f"{len(state.reserved)} reserved: {state.reserved}"]
    if exclusive := state.exclusive:
        holders = sorted(assignment.name for assignment in state.assignments.values())
        shown = ", ".join(holders[:5]) + (f" and {len(holders) - 5} more" if len(holders) > 5 else "")
        parts.append(f"{len(exclusive)} held by {shown}")
    if strangers:
        names = sorted(c.view.name for c in world.containers.values() if c.wish.standing is Standing.STRANGER)
        parts.append(f"{len(strangers)} in use by containers pinned by hand: {', '.join(names[:5])}")
    return f" ({'; '.join(parts)})"


def _keeps(world: World, state: State, container: Container) -> bool:
    demand = container.wish.demand
    return demand is not None and bool(container.view.cpuset) and may_hold(world, state, demand, container.seen)


def _is_coming(container: Container) -> bool:
    """Whether it runs, or is about to: a stopped container asks when it starts."""
    return not container.is_idle or (container.view.phase in _COMING and not container.has_lingered)


def _waits(refusal: Refusal) -> bool:
    return refusal.demand is not None and refusal.demand.shortage is Shortage.WAIT


def _options(world: World, demand: Demand) -> tuple[str, ...]:
    return world.settings.options if demand.options is None else demand.options
