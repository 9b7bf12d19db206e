"""The laws of the reservation: CPUs stand in for reserved ones that are offline, at the least cost, and no longer."""

from __future__ import annotations

from sidecar.decide.books.grants import options_of
from sidecar.decide.books.sizes import least_of
from sidecar.decide.placement.whole_cores import is_by_cores
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from state.cpuset import CPUSet, union
from state.model import Assignment
from tests.support.decide.reality import Reality


def reserved_otherwise(reality: Reality) -> list[str]:
    """Return how the reserved CPUs differ from those that the settings ask for, beyond what is offline."""
    world = reality.world
    chosen, state = _chosen(world), world.state
    if chosen is None:
        return []
    there = chosen & world.topology.online
    if not there <= state.reserved:
        return [f"{there - state.reserved} should be reserved, and {state.reserved} are"]
    asked = world.settings.reserved_count
    wanted = max(1, len(there)) if world.settings.reserved_cpus else min(asked, len(world.topology.online))
    return [f"{wanted} CPUs should be reserved, and {state.reserved} are"] if len(state.reserved) != wanted else []


def originals_reserved(reality: Reality) -> list[str]:
    """Return the original CPUs that stand in for others since the last burst, although CPUs are free or above floors,
    as sentences. A CPU on which a container is pinned by hand is not free. Under `static` no grant has CPUs above its
    number, also if its original set is smaller since it was made under `dynamic`. Nor has one of which no more than its
    least size is online. A grant of whole cores gives up the rest of a core with a CPU that stands in: so the rest of
    an original CPU's core is above no floor, nor is a core without which it has less than its least size.
    """
    before, world = reality.recorded, reality.world
    chosen, online = _chosen(world), world.topology.online
    if chosen is None or before.policy != world.settings.policy.value:
        return []
    originals = union(_never_spare(world, each) for each in before.assignments.values())
    taken = (world.state.reserved - chosen - before.reserved) & originals
    if not taken:
        return []
    others = online - originals - world.state.reserved - world.strangers - world.state.isolated
    return [f"the original CPUs {taken} are reserved, and {others} could be"] if others else []


def _never_spare(world: World, grant: Assignment) -> CPUSet:
    """Return the CPUs of a grant that are above no floor."""
    topology, held = world.topology, grant.cpus & world.topology.online
    surplus = len(held) - least_of(world, grant)
    if world.settings.policy is PolicyName.STATIC or surplus <= 0:
        return grant.cpus
    if not is_by_cores(options_of(world, grant.demand)):
        return grant.original
    others = [core.cpus & held for core in topology.cores if core.cpus.isdisjoint(grant.original)]
    return grant.cpus - union(part for part in others if len(part) <= surplus)


def _chosen(world: World) -> CPUSet | None:
    """Return the CPUs that the settings ask to reserve, online or not; None if nothing is placed."""
    if world.settings.policy is PolicyName.NONE:
        return None
    return world.settings.reserved_cpus or world.state.counted
