"""Machines for tests, as the text of a record, and as a tree of files."""

from __future__ import annotations

from pathlib import Path

from sidecar.host.machine.record import unpack
from state.cpuset import CPUSet, union
from state.topology import Topology

CPU = "devices/system/cpu"
NODE = "devices/system/node"


def tree(directory: Path, text: str) -> Path:
    """Make a root with the files of `text`: `cpu0/online: 1` goes below the CPUs, `node0/cpulist: 0-1` below nodes."""
    unpack(lines(text), directory)
    return directory


def lines(text: str) -> str:
    """Return the record that `text` abbreviates."""
    found = []
    for line in text.strip().splitlines():
        path = line.strip()
        whole = path.startswith(("devices/", "bus/", "class/", "block/"))
        found.append(path if whole else f"{NODE if path.startswith('node') else CPU}/{path}")
    return "\n".join(found)


def bare(topology: Topology) -> tuple[object, ...]:
    """Return what every machine has: the levels that `uniform` and `rendered` describe."""
    told = topology
    return (told.online, told.cores, told.caches, told.nodes, told.packages, told.offline, told.isolated, told.notes)


def rendered(topology: Topology) -> str:
    """Return the record that the kernel of such a machine would give."""
    lines = [f"{CPU}/online: {topology.online}", f"{CPU}/present: {topology.online | topology.offline}"]
    lines.append(f"{CPU}/isolated: {topology.isolated}")
    for cpu in topology.online:
        at = f"{CPU}/cpu{cpu}"
        lines += [
            f"{at}/cache/index0/level: 1",
            f"{at}/cache/index0/shared_cpu_list: {cpu}",
            f"{at}/cache/index1/level: 3",
            f"{at}/cache/index1/shared_cpu_list: {topology.cache_of[cpu].cpus}",
            f"{at}/topology/core_cpus_list: {topology.core_of[cpu].cpus}",
            f"{at}/topology/physical_package_id: {topology.package_of[cpu].id}",
        ]
    lines.append(f"{NODE}/online: {CPUSet(group.id for group in topology.nodes)}")
    lines += [f"{NODE}/node{group.id}/cpulist: {group.cpus}" for group in topology.nodes]
    return "".join(f"{line}\n" for line in lines)


def members(topology: Topology, level: str) -> list[str]:
    """Return the groups of a level as lists of CPUs."""
    groups = getattr(topology, level)
    assert union(group.cpus for group in groups) == topology.online
    return [str(group.cpus) for group in groups]
