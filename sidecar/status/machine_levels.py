"""A machine with every level that was read, for JSON: the map, and the levels that only some machines have."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sidecar.status.machine_map import MachineMap, machine_of
from state.cpuset import CPUSet
from state.topology import CacheLevel, Group, Kind, Topology


class WholeMachine(MachineMap, frozen=True, kw_only=True):
    """The map of a machine, and each level as Topology has it; empty if the machine does not report it."""

    clusters: tuple[Group, ...] = ()
    dies: tuple[Group, ...] = ()
    cache_levels: tuple[CacheLevel, ...] = ()
    distances: Mapping[int, Mapping[int, int]] = {}
    memory: tuple[int, ...] = ()
    kinds: tuple[Kind, ...] = ()
    devices: Mapping[str, CPUSet] = {}


def whole_machine_of(topology: Topology) -> WholeMachine:
    """Return the map of a machine, and all its levels."""
    machine = machine_of(topology)
    return WholeMachine(
        **{field: getattr(machine, field) for field in msgspec.structs.asdict(machine)},
        clusters=topology.clusters,
        dies=topology.dies,
        cache_levels=topology.cache_levels,
        distances=topology.distances,
        memory=topology.memory,
        kinds=topology.kinds,
        devices=topology.devices,
    )
