"""The taking of a number of CPUs by the algorithm that the options select."""

from __future__ import annotations

from collections.abc import Collection

from sidecar.decide.placement.numa.distributed import distributed
from sidecar.decide.placement.options import ACROSS_CORES, ACROSS_NUMA, ALONG_CACHES
from sidecar.decide.placement.order.along_caches import along_caches
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.order.spread import spread
from sidecar.decide.placement.whole_cores import unit_of
from state.cpuset import CPUSet
from state.topology import Topology


def take(topology: Topology, available: CPUSet, count: int, options: Collection[str]) -> CPUSet | None:
    """Return `count` CPUs out of `available`; None if there are fewer. Deterministic."""
    if ACROSS_NUMA in options:
        return distributed(topology, available, count, unit_of(topology, options, available))
    if ACROSS_CORES in options:
        return spread(topology, available, count)
    if ALONG_CACHES in options:
        return along_caches(topology, available, count)
    return packed(topology, available, count)
