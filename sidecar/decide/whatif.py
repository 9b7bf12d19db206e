"""What would be decided: requests answered by the daemon's own policy, without carrying anything out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sidecar.decide.books.grants import place
from sidecar.decide.books.policy import policy_named
from sidecar.decide.contacts import Contact, Ready
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import Settings
from sidecar.decide.sightings import sighted
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import Assignment, State
from state.refusal import Refusal
from state.topology import Topology


def imagined(state: State, topology: Topology, settings: Settings, strangers: Mapping[str, CPUSet]) -> World:
    """Return a world with this State, in which each container with a grant runs on it, and each of `strangers`, by
    name, on the CPUs to which it is pinned.
    """
    world = replace(begin(state, topology, settings), contacts={"": Contact(readiness=Ready(0))})
    for grant in sorted(world.state.assignments.values(), key=lambda each: each.since):
        world = _with(world, grant.container, grant.name, {"cpuset.exclusive": str(grant.demand.cpus)}, str(grant.cpus))
        # The State has no labels, only the terms of the grant.
        world = replace(world, state=world.state.holding(grant))
    for name, cpus in sorted(strangers.items()):
        world = _with(world, requested(f"stranger {name}"), name, {}, str(cpus))
    return world


def requested(name: str) -> ContainerKey:
    """Return the key of a request of this name in an imagined world: it belongs to no engine."""
    return ContainerKey("", name)


def turns(world: World, requests: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[World]:
    """Yield the world after each of these requests, which come one after the other. Each has a name, and labels as on
    containers.
    """
    for name, labels in requests:
        world = _with(world, requested(name), name, labels, "")
        world = replace(world, state=policy_named(world.settings.policy).settle(world))
        yield world


def placed_anew(world: World, grant: Assignment) -> CPUSet | Refusal:
    """Return where this grant would be placed now if it were new, or the refusal: options may have changed, and other
    grants ended.
    """
    return place(world, world.state.released(grant.container), grant.demand, len(grant.cpus))


def _with(world: World, key: ContainerKey, name: str, labels: Mapping[str, str], cpuset: str) -> World:
    phase = Phase.RUNNING if cpuset else Phase.CREATED
    # CPUs of a grant are no pin by hand: the container was seen before it was granted them.
    is_held = key in world.state.assignments
    view = ContainerView(
        engine=key.engine,
        id=key.id,
        name=name,
        phase=phase,
        labels=labels,
        cpuset="" if is_held else cpuset,
        effective=CPUSet.parse(cpuset) if cpuset else None,
    )
    return sighted(world, view, world.horizon + 1)
