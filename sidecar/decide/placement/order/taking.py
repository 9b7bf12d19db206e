"""What all placement algorithms share: the progress of one call, the order of groups, and the common phases.

The sort rule is the same at every level: fewest free CPUs first, then lowest id. So the fullest group that fits is used
up before an emptier one is touched. Free counts are over the whole group.

The machine determines whether nodes or packages are the upper level: with at least as many packages as nodes, nodes
come first ("NUMA first"), else packages do. Lower levels are listed in the order of their sorted parents; a group that
lies in several parents is listed under the first with which it shares a free CPU.

A group is free when *all* its CPUs are available. (The kubelet up to 1.36 compared with machine-wide averages, which
on hybrid machines granted a thread of a second container; fixed there later.)

Rules for changing this file: the order is a contract. Nothing is listed, counted or sorted before a phase needs it.
"""

from __future__ import annotations

from collections.abc import Iterable

from state.cpuset import CPUSet
from state.tree import Tree


class Taking:
    """The progress of one call: masks of the CPUs still free and of those taken, and how many are still needed.

    A phase returns whether nothing more is needed.
    """

    def __init__(self, tree: Tree, free: int, count: int) -> None:
        self.tree = tree
        self.free = free & tree.online
        self.taken = 0
        self.needed = count

    def result(self) -> CPUSet:
        """Return the CPUs taken."""
        return CPUSet.from_mask(self.taken)

    def take(self, mask: int) -> None:
        """Take these CPUs, which must be free and no more than needed."""
        self.taken |= mask
        self.free &= ~mask
        self.needed -= mask.bit_count()

    def nodes(self) -> list[int]:
        """Return the nodes that have a free CPU, in order."""
        return ranked(self.tree.upper, self.free) if self.tree.is_numa_first else self.lower()

    def packages(self) -> list[int]:
        """Return the packages that have a free CPU, in order."""
        return self.lower() if self.tree.is_numa_first else ranked(self.tree.upper, self.free)

    def lower(self) -> list[int]:
        """Return the groups of the lower of the two levels that have a free CPU, in order."""
        if len(self.tree.lower) == 1:
            return [*self.tree.lower]
        return self.below(ranked(self.tree.upper, self.free), self.tree.lower_in)

    def below(self, parents: list[int], children: dict[int, tuple[int, ...]]) -> list[int]:
        """Return the children of these parents that have a free CPU, in order."""
        listed: dict[int, None] = {}
        for parent in parents:
            shared = parent & self.free
            listed.update(dict.fromkeys(ranked([mask for mask in children[parent] if mask & shared], self.free)))
        return list(listed)

    def whole(self, groups: Iterable[int]) -> bool:
        """Take the groups that are entirely free, in this order, skipping those larger than needed."""
        for mask in groups:
            if mask & self.free == mask and mask.bit_count() <= self.needed:
                self.take(mask)
                if not self.needed:
                    return True
        return not self.needed

    def whole_nodes_and_packages(self) -> bool:
        """Take whole groups of the upper level, then of the lower one."""
        return self.whole(ranked(self._servable(self.tree.upper), self.free)) or (
            bool(self._servable(self.tree.lower)) and self.whole(self.lower())
        )

    def whole_cores(self) -> bool:
        """Take whole cores, in order."""
        for parent in self.lower():
            # Taking a core never changes whether another one is free, so each may be checked when its turn comes.
            if self.whole(sorted(self._servable(self.tree.cores_in[parent]), key=int.bit_count)):
                return True
        return False

    def singles(self) -> None:
        """Take CPUs one by one, core by core in order: half-used cores are filled first."""
        for parent in self.lower():
            shared = parent & self.free
            for core in ranked([mask for mask in self.tree.cores_in[parent] if mask & shared], self.free):
                self.take(lowest(core & self.free, self.needed))
                if not self.needed:
                    return

    def _servable(self, groups: Iterable[int]) -> list[int]:
        """Return the groups that are entirely free, and no larger than needed."""
        free, needed = self.free, self.needed
        return [mask for mask in groups if mask & free == mask and mask.bit_count() <= needed]


def ranked(groups: Iterable[int], free: int) -> list[int]:
    """Return the groups that have a free CPU: fewest free CPUs first, then in the given order."""
    counted = [((mask & free).bit_count(), place, mask) for place, mask in enumerate(groups) if mask & free]
    counted.sort()
    return [mask for _, _, mask in counted]


def lowest(mask: int, count: int) -> int:
    """Return the `count` lowest CPUs of a mask; the whole mask if it has fewer."""
    if mask.bit_count() <= count:
        return mask
    # Find the fewest low bits that contain `count` CPUs, by bisection.
    low, high = count, mask.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (mask & ((1 << middle) - 1)).bit_count() < count:
            low = middle + 1
        else:
            high = middle
    return mask & ((1 << low) - 1)
