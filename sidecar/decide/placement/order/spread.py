"""Spread placement (distribute-cpus-across-cores): as many different cores as possible before a second sibling.

1. Nothing to do, or not enough.
2. Take whole nodes and packages that are entirely free, as in `packed`.
3. Package by package, in the order of `packed`, take one CPU of each core, the lowest free one, by CPU number. When
   every core of the package has given one, take the package's other CPUs by number.

The kubelet takes a package's CPUs by number alone. That spreads if siblings are numbered far apart (0 and 24), but
takes sibling pairs if they are neighbours (0 and 1), as in most virtual machines. If its answer has as many different
cores as possible, the answer here is the same: then one CPU of each core comes first in both.

Locality takes precedence over spreading: a package is used up before the next one is touched, as in the kubelet.
"""

from __future__ import annotations

from sidecar.decide.placement.order.taking import Taking, lowest
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


def spread(topology: Topology, available: CPUSet, count: int) -> CPUSet | None:
    """Return `count` CPUs out of `available`; None if there are fewer. Deterministic."""
    # 1. Nothing to do, or not enough.
    if count < 1:
        return EMPTY
    taking = Taking(topology.tree, available.mask, count)
    if taking.free.bit_count() < count:
        return None
    # 2. Whole nodes and packages.
    if not taking.whole_nodes_and_packages():
        # 3. Package by package, core by core.
        for package in taking.packages():
            _across_cores(taking, package)
            if not taking.needed:
                break
    return taking.result()


def _across_cores(taking: Taking, package: int) -> None:
    free = package & taking.free
    if free.bit_count() > taking.needed:
        firsts = 0
        for core in taking.tree.cores_in[package]:
            cpus = core & free
            firsts |= cpus & -cpus
        taking.take(lowest(firsts, taking.needed))
        free &= ~firsts
    taking.take(lowest(free, taking.needed))
