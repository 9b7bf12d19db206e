"""The laws of grants: number and NUMA rule of a new one are as asked for; its CPUs belong to one container at a time.

Whole cores are not among them yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.grants import bounds
from sidecar.decide.container.terms import Terms
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule
from state.invariants import violations
from state.model import Assignment, State
from tests.support.decide.glances import waited_for
from tests.support.decide.reality import Reality


def sent_where_another_is_leaving(reality: Reality) -> list[str]:
    """Return the last orders that put an exclusive container where another may still stay, as sentences. One for which
    nobody waits stays nowhere.
    """
    world, found = reality.world, list[str]()
    for order in reality.new_moves:
        granted = world.state.assignments.get(order.container)
        if granted is None or not order.live:
            continue
        others = union(
            _leaving(each) & CPUSet.from_mask(waited_for(reality, key))
            for key, each in world.state.assignments.items()
            if each is not granted and key in world.containers
        )
        if both := order.update.cpus & others - world.state.reserved:
            found.append(f"{granted.name} was sent to {both}, which another container is still leaving")
    return found


def granted_otherwise(reality: Reality) -> list[str]:
    """Return what the last burst granted against a container's number or NUMA rule, as sentences."""
    return [sentence for granted in _new(reality) for sentence in _wrong_in(reality, granted)]


def leaving_at_once(reality: Reality) -> list[str]:
    """Return the grants that leave CPUs which they never had, as sentences: new ones, from which nothing was taken,
    those that have not entered these CPUs, and those that lost them while another was still leaving them, or while the
    shared pool kept them as yet; whatever became of the machine or the settings.
    """
    before, world = reality.planned_from.state, reality.world
    found = [
        f"{granted.name} was granted {granted.cpus}, and is leaving {granted.leaving.cpus}, which it never had"
        for granted in _new(reality)
        if granted.leaving and granted.container in before.originals
    ]
    if world.settings.policy is PolicyName.DYNAMIC and world.is_ready and not world.is_releasing:
        known = ((each, world.containers.get(key)) for key, each in world.state.assignments.items())
        found += [
            f"{granted.name} is leaving {never}, which it has not entered"
            for granted, container in known
            if container and (never := _leaving(granted) - CPUSet.from_mask(container.footprint))
        ]
        for key, was in before.assignments.items():
            after = world.state.assignments.get(key)
            if after is not None and after.since == was.since:
                others = union(_leaving(each) for each in before.assignments.values() if each is not was)
                if never := (_leaving(after) - _leaving(was)) & (others | before.lent):
                    found.append(f"{after.name} is leaving {never}, which were not in force yet")
    return found


def _new(reality: Reality) -> Iterator[Assignment]:
    """Yield each grant of a container that the last burst made."""
    before, world = reality.planned_from.state, reality.world
    if world.settings.policy is PolicyName.NONE:
        return
    for key, granted in world.state.assignments.items():
        if key not in before.assignments and key in world.containers:
            yield granted


def _wrong_in(reality: Reality, granted: Assignment) -> Iterator[str]:
    world, demand = reality.world, granted.demand
    terms, topology = Terms(world.settings, demand), world.topology
    # CPUs on which it was found, and which it was granted for that, may be exchanged at once: it had these.
    held = granted.cpus | (_leaving(granted) - world.containers[granted.container].place.configured)
    least, most = bounds(world, demand)
    if not least <= len(held) <= most:
        yield f"{granted.name} asked for {demand.cpus} and was granted {held}"
    nodes = [node for node in topology.nodes if not node.cpus.isdisjoint(held)]
    if terms.numa is NumaRule.SINGLE and len(nodes) > 1:
        yield f"{granted.name} asked for one NUMA node and was granted {held}"


def _leaving(granted: Assignment) -> CPUSet:
    return granted.leaving.cpus if granted.leaving else EMPTY


def books_are_lawful(reality: Reality) -> list[str]:
    return [str(each) for each in violations(_with_what_is_kept(reality.world), reality.world.topology)]


def _with_what_is_kept(world: World) -> State:
    """Return the State in which what an absent engine's container holds is within its ceiling: it keeps what it has,
    also if the settings give it less since.
    """
    state = world.state
    for key, grant in world.state.assignments.items():
        if world.is_absent(key) and len(grant.cpus) > grant.demand.ceiling:
            state = state.holding(replace(grant, demand=replace(grant.demand, max_cpus=len(grant.cpus))))
    return state
