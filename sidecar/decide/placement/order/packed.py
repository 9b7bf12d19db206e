"""Packed placement: n CPUs taken best-fit from the machine's tree, in the kubelet's order.

1. Nothing to do, or not enough.
2. Take whole groups of the upper level, then of the lower one: those that are entirely free, as long as they fit.
3. Take whole cores.
4. Take single CPUs, in core order: half-used cores are filled first.

`taking` defines the order, and when a group is free.
"""

from __future__ import annotations

from sidecar.decide.placement.order.taking import Taking
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


def packed(topology: Topology, available: CPUSet, count: int) -> CPUSet | None:
    """Return `count` CPUs out of `available`; None if there are fewer. Deterministic."""
    # 1. Nothing to do, or not enough.
    if count < 1:
        return EMPTY
    taking = Taking(topology.tree, available.mask, count)
    if taking.free.bit_count() < count:
        return None
    pack(taking)
    return taking.result()


def pack(taking: Taking) -> None:
    """Take the CPUs that are still needed, packed. There must be enough."""
    # 2. Whole nodes and packages. 3. Whole cores.
    if not (taking.whole_nodes_and_packages() or taking.whole_cores()):
        # 4. Single CPUs.
        taking.singles()
