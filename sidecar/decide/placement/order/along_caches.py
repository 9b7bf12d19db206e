"""Placement along caches (prefer-align-cpus-by-uncorecache): packed, with a look at the last-level caches in between.

1. Nothing to do, or not enough.
2. Whole nodes and packages, as in `packed`.
3. Whole caches that are entirely free, best fit first; only if as much is needed as an average cache has.
4. What is still needed out of one cache: the first, fullest first, whose lowest cores make up exactly that many CPUs.
   As many cores are tried as the request would fill; of an odd rest, the highest CPU stays behind.
5. Whole cores, then single CPUs, as in `packed`.

Caches are listed node by node. Averages are the machine's, rounded down, as the kubelet's are: here they choose between
good answers, and never make a CPU free that is not. A cache with enough CPUs can fail in step 4 if some of its cores
are half used; the request then goes on to step 5, as it does there.
"""

from __future__ import annotations

from sidecar.decide.placement.order.taking import Taking, lowest
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


def along_caches(topology: Topology, available: CPUSet, count: int) -> CPUSet | None:
    """`count` CPUs out of `available`, or None where there are not so many. Deterministic."""
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
    # 4. The rest out of one cache.
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
    """The free CPUs of the cache's lowest cores that are exactly what is needed; 0 if they are not."""
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
