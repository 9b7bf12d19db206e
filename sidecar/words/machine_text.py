"""A machine in words: its levels, what is near its devices, and how CPUs lie in it. Pure."""

from __future__ import annotations

import re
from typing import Final

from sidecar.log import printable
from sidecar.words.counts import counted, cut
from state.cpuset import CPUSet
from state.topology import Group, Topology

_MAX_NODES: Final = 16
"""Nodes in the table of distances: more do not fit a page."""

_MAX_PLACES: Final = 16
"""Sets of CPUs near devices; of the others, only their number."""

_MAX_NAMES: Final = 8
"""Devices named for each such set; of the others, only their number."""

_MAX_GROUPS: Final = 6
"""Groups that a phrase names; of more, only their number."""

_WIDTH: Final = 60
"""Characters of one list of CPUs: on some machines a node is every fourth CPU."""


def described(topology: Topology) -> list[str]:
    """Return a line for each kind of thing that the machine has; the first has the counts."""
    return [
        _counts(topology),
        *_caches(topology),
        *_kinds(topology),
        *_apart(topology),
        *_nodes(topology),
        *_devices(topology),
    ]


def _counts(topology: Topology) -> str:
    threads = sorted({len(core.cpus) for core in topology.cores})
    each = "CPU" if threads == [1] else "CPUs"
    counts = [counted(len(topology.packages), "socket")]
    counts += [counted(len(topology.dies), "die")] if topology.dies else []
    counts += [
        counted(len(topology.nodes), "node"),
        counted(len(topology.caches), "last-level cache"),
    ]
    counts += [counted(len(topology.clusters), "cluster")] if topology.clusters else []
    counts += [
        f"{counted(len(topology.cores), 'core')} of {' or '.join(map(str, threads))} {each}",
        f"{counted(len(topology.online), 'CPU')} online: {_cpus(topology.online)}",
    ]
    return ", ".join(counts)


def _caches(topology: Topology) -> list[str]:
    levels = [f"{len(level.groups)} of level {level.level}" for level in topology.cache_levels]
    return [f"caches: {', '.join(levels)}"] if levels else []


def _kinds(topology: Topology) -> list[str]:
    return [
        f"{kind.name} CPUs: {_cpus(kind.cpus)}" + (f" (capacity {kind.capacity})" if kind.capacity else "")
        for kind in topology.kinds
    ]


def _apart(topology: Topology) -> list[str]:
    """Return the isolated and the offline CPUs, if there are any."""
    named = {"isolated": topology.isolated, "offline": topology.offline}
    return [f"{name}: {_cpus(cpus)}" for name, cpus in named.items() if cpus]


def _nodes(topology: Topology) -> list[str]:
    """Return which nodes have no CPU or no memory, and a table of distances if they are known."""
    running = {node.id for node in topology.nodes}
    lines = []
    if idle := [str(node) for node in topology.memory if node not in running]:
        lines.append(f"nodes of memory only: {', '.join(idle)}")
    if bare := [str(node) for node in sorted(running) if topology.memory and node not in topology.memory]:
        lines.append(f"nodes without memory: {', '.join(bare)}")
    rows = topology.distances
    if len(rows) < 2:
        return lines
    if len(rows) > _MAX_NODES:
        return [*lines, f"distances: of {counted(len(rows), 'node')}, with --json"]
    columns = sorted({to for row in rows.values() for to in row})
    cells = {id: [str(rows[id].get(to, "-")) for to in columns] for id in sorted(rows)}
    width = max(len(cell) for row in ([*map(str, columns)], *cells.values()) for cell in row)
    lines.append(" ".join(["distances", *(f"{to:>{width}}" for to in columns)]))
    return lines + [
        " ".join([f"{f'node {id}':>9}", *(f"{cell:>{width}}" for cell in row)]) for id, row in cells.items()
    ]


def _devices(topology: Topology) -> list[str]:
    """Group devices by the CPUs near them; interfaces and disks before PCI addresses, which have colons."""
    places: dict[CPUSet, list[str]] = {}
    for name, cpus in sorted(topology.devices.items(), key=lambda each: (":" in each[0], each[0])):
        places.setdefault(cpus, []).append(name)
    lines = []
    for cpus, names in sorted(places.items(), key=lambda each: (each[0].lowest(), len(each[0])))[:_MAX_PLACES]:
        shown = [printable(name) for name in names[:_MAX_NAMES]]
        if len(names) > _MAX_NAMES:
            shown.append(f"and {len(names) - _MAX_NAMES} more")
        lines.append(f"near {'all CPUs' if cpus == topology.online else _cpus(cpus)}: {', '.join(shown)}")
    if len(places) > _MAX_PLACES:
        lines.append(f"near {len(places) - _MAX_PLACES} other sets of CPUs: more devices, with --json")
    return lines


def lie(topology: Topology, cpus: CPUSet) -> str:
    """Describe where CPUs are: `2 whole cores, cache 3, node 0, socket 0`, without levels that divide nothing."""
    whole = sum(1 for core in topology.cores if core.cpus <= cpus)
    threads = len(cpus) - sum(len(core.cpus) for core in topology.cores if core.cpus <= cpus)
    has_threads = len(topology.cores) < len(topology.online)
    parts = [counted(whole, "whole core" if has_threads else "core")] if whole else []
    parts += [counted(threads, "single thread")] if threads else []
    said = [" and ".join(parts)] if parts else []
    levels = (("cache", topology.caches), ("node", topology.nodes), ("socket", topology.packages))
    larger = [{group.cpus for group in groups} for _, groups in levels[1:]] + [{topology.online}]
    for (what, groups), divided in zip(levels, larger, strict=True):
        divides = {group.cpus for group in groups} != divided and len(groups) < len(topology.cores)
        if divides:
            said.append(_named(what, [group for group in groups if not group.cpus.isdisjoint(cpus)]))
    said += [f"{kind.name} cores" for kind in topology.kinds if cpus and cpus <= kind.cpus]
    return ", ".join(said)


def no_cpu(asked: str, online: CPUSet) -> str:
    """Return that the machine has no CPU of this number, or none of a list of numbers, or that this is no number."""
    shown = printable(cut(asked, _WIDTH))
    if re.fullmatch(r"[0-9]+([-,][0-9]+)*", asked):
        return f"this machine has no CPU {shown}: it has {_cpus(online)}"
    return f"'{shown}' is no number of a CPU: this machine has {_cpus(online)}"


def _named(what: str, groups: list[Group]) -> str:
    if len(groups) > _MAX_GROUPS:
        return f"{len(groups)} {what}s"
    return f"{what if len(groups) == 1 else what + 's'} {', '.join(str(group.id) for group in groups)}"


def _cpus(cpus: CPUSet) -> str:
    return cut(str(cpus), _WIDTH)
