"""What projections say that a living daemon has written, without any files."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.decide.moves.alone import is_alone
from sidecar.decide.world import World
from sidecar.projection.projection_of import may_be_told
from state.cpuset import CPUSet
from state.key import ContainerKey


def told_after(before: Mapping[ContainerKey, CPUSet], world: World) -> Mapping[ContainerKey, CPUSet]:
    """Return the containers that are told to be alone, and where, once this world is told; `before` it were these. A
    release removes all files first.
    """
    if world.is_releasing:
        return {}
    owners = {key: world.containers[key] for key in world.state.assignments.keys() & world.containers.keys()}
    told = {key: each for key, each in owners.items() if may_be_told(world, key, told=before.get(key))}
    now = {key: CPUSet.from_mask(each.footprint) for key, each in told.items() if is_alone(world, each)}
    kept = {key: cpus for key, cpus in before.items() if not may_be_told(world, key, told=cpus)}
    return {**kept, **now}
