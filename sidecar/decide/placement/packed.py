"""Packed placement: n CPUs taken best-fit from the machine's tree, in the kubelet's order.

The sort rule is the same at every level: fewest free CPUs first, then lowest id, so that the fullest group that still
serves is used up before an emptier one is broken into. Free counts are over the whole group.

Which of node and package stands above the other depends on the machine: with at least as many packages as nodes, nodes
come first ("NUMA first"), else packages do. Lower levels are listed in the order of their sorted parents.

1. Nothing to do, or not enough.
2. Whole groups of the upper level, then of the lower one: those that are entirely free, as long as they fit.
3. Whole cores.
4. Single CPUs, in core order: half-used cores are filled first.

A group is free when *all* its CPUs are available (the kubelet up to 1.36 compared with machine-wide averages, which
gave out a second container's thread on hybrid machines; fixed there later).

Rules for changing this file: the order is a contract. Other orders are other files.
"""

from __future__ import annotations

from collections.abc import Callable

from state.cpuset import CPUSet
from state.topology import Group, Topology


def packed(topology: Topology, available: CPUSet, count: int) -> CPUSet | None:
    """`count` CPUs out of `available`, or None where there are not so many. Deterministic."""
    # 1. Nothing to do, or not enough.
    if count < 1:
        return CPUSet()
    take = _Taking(topology, available.mask & topology.online.mask, count)
    if take.free.bit_count() < count:
        return None
    # 2. Whole groups of the upper level, then of the lower one.
    for level in take.levels():
        if take.whole(level):
            return take.result()
    # 3. Whole cores.
    if take.whole(take.cores):
        return take.result()
    # 4. Single CPUs, in core order.
    take.singles()
    return take.result()


class _Taking:
    """One call's progress: what is still free, and what was taken."""

    def __init__(self, topology: Topology, free: int, count: int) -> None:
        self.topology = topology
        self.free = free
        self.taken = 0
        self.needed = count
        self.numa_first = len(topology.packages) >= len(topology.nodes)

    def result(self) -> CPUSet:
        return CPUSet.from_mask(self.taken)

    def levels(self) -> tuple[Callable[[], list[int]], Callable[[], list[int]]]:
        """The two levels above cores, upper first, each as a function that lists its groups' masks now."""
        if self.numa_first:
            return self.nodes, self.packages
        return self.packages, self.nodes

    def nodes(self) -> list[int]:
        nodes = self.topology.nodes
        return self._sorted(nodes) if self.numa_first else self._below(nodes, self.packages())

    def packages(self) -> list[int]:
        packages = self.topology.packages
        return self._below(packages, self.nodes()) if self.numa_first else self._sorted(packages)

    def cores(self) -> list[int]:
        lower = self.packages() if self.numa_first else self.nodes()
        return self._below(self.topology.cores, lower)

    def whole(self, level: Callable[[], list[int]]) -> bool:
        """Take entirely free groups of a level, best fit first; true when nothing more is needed."""
        for mask in [each for each in level() if each & self.free == each]:
            size = mask.bit_count()
            if size <= self.needed:
                self._take(mask, size)
                if not self.needed:
                    return True
        return False

    def singles(self) -> None:
        """Take CPUs one by one, core by core."""
        for mask in self.cores():
            available = mask & self.free
            while available and self.needed:
                lowest = available & -available
                self._take(lowest, 1)
                available ^= lowest
            if not self.needed:
                return

    def _take(self, mask: int, size: int) -> None:
        self.taken |= mask
        self.free &= ~mask
        self.needed -= size

    def _sorted(self, groups: tuple[Group, ...]) -> list[int]:
        """Masks of the groups with a free CPU: fewest free first, then lowest id."""
        ranked = [((group.cpus.mask & self.free).bit_count(), group.id, group.cpus.mask) for group in groups]
        return [mask for count, _, mask in sorted(ranked) if count]

    def _below(self, groups: tuple[Group, ...], parents: list[int]) -> list[int]:
        """The same, in the order of the sorted parents, each group once, under the first parent that it touches."""
        ranked = self._sorted(groups)
        if len(parents) == 1:
            return ranked
        listed: list[int] = []
        for parent in parents:
            listed += [mask for mask in ranked if mask & parent]
            ranked = [mask for mask in ranked if not mask & parent]
        return listed
