"""So many CPUs out of these, by the algorithm that the options name."""

from __future__ import annotations

from collections.abc import Collection

from sidecar.decide.placement.packed import packed
from state.cpuset import CPUSet
from state.topology import Topology


def take(topology: Topology, available: CPUSet, count: int, options: Collection[str]) -> CPUSet | None:  # noqa: ARG001
    """`count` CPUs out of `available`, or None where there are not so many. Deterministic."""
    return packed(topology, available, count)
