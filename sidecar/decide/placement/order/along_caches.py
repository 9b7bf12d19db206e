"""Placement along caches (prefer-align-cpus-by-uncorecache): packed, with steps for the last-level caches in between.

1. Nothing to do, or not enough.
2. Take whole nodes and packages, as in `packed`.
3. Take whole caches that are entirely free, best fit first; only if at least an average cache is needed.
4. Take the rest from one cache: the first, fullest first, whose lowest cores have exactly that many CPUs. The number of
   cores tried is that which the rest would fill; of an odd rest, the highest CPU is left.
5. Take whole cores, then single CPUs, as in `packed`.

Caches are listed node by node. Averages are the machine's, rounded down, as in the kubelet: here they choose between
good answers, and never treat a used CPU as free. A cache with enough CPUs can fail in step 4 if some of its cores are
half used; the request then continues with step 5, as in the kubelet.
"""

from __future__ import annotations

from sidecar.decide.placement.order.taking import Taking, lowest
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


def along_caches(topology: Topology, available: CPUSet, count: int) -> CPUSet | None:
    """Return `count` CPUs out of `available`; None if there are fewer. Deterministic."""
    # 1. Nothing to do, or not enough.
    if count < 1:
        return EMPTY
    taking = Taking(topology.tree, available.mask, count)
    if taking.free.bit_count() < count:
        return None
    # 2. Whole nodes and packages.
    if taking.whole_nodes_and_packages():
        return taking.result()
    caches = taking.below(taking.nodes(), taking.tree.caches_in)
    # 3. Whole caches.
    if taking.needed >= len(topology.online) // len(topology.caches) and taking.whole(caches):
        return taking.result()
    # 4. The rest from one cache.
    for cache in caches:
        part = _part(taking, cache, topology.cpus_per_core)
        if part:
            taking.take(part)
            return taking.result()
    # 5. Whole cores, then single CPUs.
    if not taking.whole_cores():
        taking.singles()
    return taking.result()


def _part(taking: Taking, cache: int, cpus_per_core: int) -> int:
    """Return the mask of free CPUs of the cache's lowest cores if they are exactly as many as needed, else 0."""
    needed, free = taking.needed, taking.free
    cores, part = -(-needed // cpus_per_core), 0
    for core in taking.tree.cores_in[cache]:
        if core & cache & free:
            part |= core & free
            cores -= 1
            if not cores:
                break
    size = part.bit_count()
    if size > needed and needed % 2 and cpus_per_core > 1:
        part = lowest(part, size - 1)
    return part if part.bit_count() == needed else 0
