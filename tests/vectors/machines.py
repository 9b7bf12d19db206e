"""The machines of the vectors, as topologies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from state.cpuset import CPUSet
from state.topology import Topology, topology
from tests.vectors.verdict import Vector

_CPU, _CORE, _SOCKET, _NODE, _CACHE = range(5)
"""The columns of a machine's rows."""


def machines_in(directory: Path) -> dict[str, Topology]:
    """Return every machine of the topology files in a directory, by name."""
    found: dict[str, Topology] = {}
    for file in sorted(directory.glob("*topologies.json")):
        for machine in json.loads(file.read_text()):
            found[machine["name"]] = machine_of(machine)
    return found


def machine_of(machine: Vector) -> Topology:
    """Return the machine that these rows describe, with the given counts that the kubelet divides by."""
    rows = machine["cpus"]
    made = topology(
        cores=list(_grouped(rows, _CORE).values()),
        caches=_grouped(rows, _CACHE),
        nodes=_grouped(rows, _NODE),
        packages=_grouped(rows, _SOCKET),
        offline=CPUSet(range(len(rows))) - CPUSet(row[_CPU] for row in rows),
    )
    counts: Mapping[str, int] = machine["counts"]
    if counts["cores"]:
        # Some of the kubelet's own fixtures have counts that contradict their rows, and answers that depend on them.
        made.__dict__["cpus_per_core"] = counts["cpus"] // counts["cores"]
    return made


def is_contradictory(machine: Topology) -> bool:
    """Return whether the counts of a machine contradict its rows, as in some of the kubelet's fixtures."""
    return not machine.kinds and all(machine.cpus_per_core < len(core.cpus) for core in machine.cores)


def _grouped(rows: Iterable[list[int]], column: int) -> dict[int, CPUSet]:
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(row[column], []).append(row[_CPU])
    return {id: CPUSet(cpus) for id, cpus in groups.items()}
