"""NUMA nodes: their CPUs, how far they are from each other, and which of them have memory."""

from __future__ import annotations

from typing import Final, NamedTuple

from sidecar.host.machine.sources import numbered
from sidecar.host.machine.values import MachineFiles, completed
from sidecar.words.counts import counted, named
from state.cpuset import EMPTY, CPUSet

NODE_DIR: Final = "devices/system/node"

_MAX_NODES: Final = 4096
"""Nodes that are read: the kernel's MAX_NUMNODES is at most 1024."""

_MAX_DIGITS: Final = 5
"""Digits of a distance: firmware has a byte for it."""


class Nodes(NamedTuple):
    """The groups are None if no node is reported. Distances and memory include nodes without CPUs."""

    groups: dict[int, CPUSet] | None
    distances: dict[int, dict[int, int]]
    memory: tuple[int, ...]


def nodes(told: MachineFiles, online: CPUSet, packages: dict[int, CPUSet] | None) -> Nodes:
    """Return the nodes that are online, each CPU in one of them."""
    alive = told.cpus(f"{NODE_DIR}/online")
    ids = [id for id in numbered(told.files, NODE_DIR, "node")[:_MAX_NODES] if _is_told(told, id)]
    if alive:
        ids = [id for id in ids if id in alive]
    found: dict[int, CPUSet] = {}
    taken = EMPTY
    known: list[int] = []
    for id in ids:
        at = f"{NODE_DIR}/node{id}"
        listed = told.cpus(f"{at}/cpulist")
        these = (listed or told.mask(f"{at}/cpumap") or EMPTY) & online
        if listed is not None or these:
            known.append(id)
        if both := these & taken:
            told.note(f"node {id} names {named(both)}, which a lower node has")
        if own := these - taken:
            found[id] = own
        taken |= these
    missing = f"nodes are missing: {'each package is one' if packages else 'one node'}"
    groups = completed(told, found, online, "node", missing)
    return Nodes(groups, _distances(told, ids), _memory(told, ids, known))


def _is_told(told: MachineFiles, id: int) -> bool:
    """Return whether a node's directory holds anything: an empty one counts as missing."""
    return any(
        told.files.value(f"{NODE_DIR}/node{id}/{name}") is not None for name in ("cpulist", "cpumap", "distance")
    )


def _distances(told: MachineFiles, ids: list[int]) -> dict[int, dict[int, int]]:
    """Return the distances between nodes; a node's file has one number per online node, ascending
    (drivers/base/node.c).
    """
    found: dict[int, dict[int, int]] = {}
    for id in ids:
        path = f"{NODE_DIR}/node{id}/distance"
        text = told.files.value(path)
        if not text:
            continue
        row = text.split()
        if len(row) != len(ids) or not all(word.isdigit() and len(word) <= _MAX_DIGITS for word in row):
            told.note_ignored(path, f"{text[:40]!r} is not a distance to each of {counted(len(ids), 'node')}")
            continue
        found[id] = dict(zip(ids, map(int, row), strict=True))
    return found


def _memory(told: MachineFiles, ids: list[int], known: list[int]) -> tuple[int, ...]:
    """Return the nodes with memory; all reported nodes, if the kernel does not list those (before 3.10)."""
    listed = told.cpus(f"{NODE_DIR}/has_memory") or told.cpus(f"{NODE_DIR}/has_normal_memory")
    return tuple(id for id in ids if id in listed) if listed else tuple(known)
