"""The machine as a map, for drawing: packages of nodes, of caches, of cores. Pure: Topology in, map out."""

from __future__ import annotations

import msgspec

from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


class Core(msgspec.Struct, frozen=True):
    """A core, or the part of it that is in the surrounding cache, and its online CPUs."""

    id: int
    cpus: CPUSet


class Cache(msgspec.Struct, frozen=True):
    """A last-level cache, or the part of it that is in the surrounding node."""

    id: int
    cores: tuple[Core, ...]


class Node(msgspec.Struct, frozen=True):
    """A NUMA node, or the part of it that is in the surrounding package."""

    id: int
    caches: tuple[Cache, ...]


class Package(msgspec.Struct, frozen=True):
    """A socket."""

    id: int
    nodes: tuple[Node, ...]


class MachineMap(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as a map. `notes` report what was missing and what was assumed."""

    online: CPUSet
    offline: CPUSet = EMPTY
    isolated: CPUSet = EMPTY
    packages: tuple[Package, ...] = ()
    notes: tuple[str, ...] = ()


def machine_of(topology: Topology) -> MachineMap:
    """Return the map of a machine. What spans two groups of a higher level appears in both, with part of its CPUs."""

    def cores(within: CPUSet) -> tuple[Core, ...]:
        return tuple(Core(g.id, g.cpus & within) for g in topology.cores if g.cpus.mask & within.mask)

    def caches(within: CPUSet) -> tuple[Cache, ...]:
        return tuple(Cache(g.id, cores(g.cpus & within)) for g in topology.caches if g.cpus.mask & within.mask)

    def nodes(within: CPUSet) -> tuple[Node, ...]:
        return tuple(Node(g.id, caches(g.cpus & within)) for g in topology.nodes if g.cpus.mask & within.mask)

    return MachineMap(
        online=topology.online,
        offline=topology.offline,
        isolated=topology.isolated,
        packages=tuple(Package(g.id, nodes(g.cpus)) for g in topology.packages),
        notes=topology.notes,
    )
