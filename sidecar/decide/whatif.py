"""What would be decided: requests answered by the daemon's own policy in a world where nothing is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.policies.granting import place
from sidecar.decide.policies.registry import policy_named
from sidecar.decide.reconcile import begin, sighted
from sidecar.decide.world import Settings, World, replace
from state.cpuset import CPUSet
from state.model import Assignment, State
from state.refusal import Refusal
from state.topology import Group, Topology

_SHOWN: Final = 6
"""Groups that a phrase names; of more, their number."""


def imagined(state: State, topology: Topology, settings: Settings, strangers: Mapping[str, CPUSet]) -> World:
    """A world with these books, in which every holder runs on its grant, and `strangers` on the CPUs of their pins."""
    world = replace(begin(state, topology, settings), is_ready=True)
    for grant in sorted(world.state.assignments.values(), key=lambda each: each.since):
        world = _with(world, grant.container, grant.name, {"cpuset.exclusive": str(grant.demand.cpus)}, str(grant.cpus))
    for name, cpus in sorted(strangers.items()):
        world = _with(world, f"stranger {name}", name, {}, str(cpus))
    return world


def asking(world: World, requests: Iterable[tuple[str, Mapping[str, str]]]) -> World:
    """The world once these have asked, one after the other: names, and labels as on containers."""
    for name, labels in requests:
        world = _with(world, name, name, labels, "")
        world = replace(world, state=policy_named(world.settings.policy).settle(world))
    return world


def placed_anew(world: World, grant: Assignment) -> CPUSet | Refusal:
    """Where this grant would be placed now if it were not held: options may have changed, and others gone."""
    return place(world, world.state.released(grant.container), grant.demand, len(grant.cpus))


def lie(topology: Topology, cpus: CPUSet) -> str:
    """How CPUs lie: `2 whole cores, cache 3, node 0, socket 0`; levels that divide nothing are left out."""
    whole = sum(1 for core in topology.cores if core.cpus <= cpus)
    threads = len(cpus) - sum(len(core.cpus) for core in topology.cores if core.cpus <= cpus)
    has_threads = len(topology.cores) < len(topology.online)
    parts = [_count(whole, "whole core" if has_threads else "core")] if whole else []
    parts += [_count(threads, "single thread")] if threads else []
    said = [" and ".join(parts)] if parts else []
    levels = (("cache", topology.caches), ("node", topology.nodes), ("socket", topology.packages))
    larger = [{group.cpus for group in groups} for _, groups in levels[1:]] + [{topology.online}]
    for (what, groups), divided in zip(levels, larger, strict=True):
        divides = {group.cpus for group in groups} != divided and len(groups) < len(topology.cores)
        if divides:
            said.append(_named(what, [group for group in groups if not group.cpus.isdisjoint(cpus)]))
    said += [f"{kind.name} cores" for kind in topology.kinds if cpus and cpus <= kind.cpus]
    return ", ".join(said)


def _with(world: World, id: str, name: str, labels: Mapping[str, str], cpuset: str) -> World:
    phase = Phase.RUNNING if cpuset else Phase.CREATED
    # What is held is no pin by hand: who has a grant was seen before it was given.
    is_held = id in world.state.assignments
    view = ContainerView(
        id=id,
        name=name,
        phase=phase,
        labels=labels,
        cpuset="" if is_held else cpuset,
        effective=CPUSet.parse(cpuset) if cpuset else None,
    )
    return sighted(world, view, world.horizon + 1)


def _named(what: str, groups: list[Group]) -> str:
    if len(groups) > _SHOWN:
        return f"{len(groups)} {what}s"
    return f"{what if len(groups) == 1 else what + 's'} {', '.join(str(group.id) for group in groups)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
