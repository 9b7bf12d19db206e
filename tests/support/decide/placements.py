"""What the tests of placement share: the algorithms by name, and small machines of many shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from sidecar.decide.placement.numa.distributed import distributed
from sidecar.decide.placement.order.along_caches import along_caches
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.order.spread import spread
from state.cpuset import CPUSet
from state.topology import Group, Topology, topology, uniform

Algorithm = Callable[[Topology, CPUSet, int], CPUSet | None]

ALGORITHMS: Final[dict[str, Algorithm]] = {
    "packed": packed,
    "spread": spread,
    "along caches": along_caches,
    "distributed": partial(distributed, group_size=1),
    "distributed by two": partial(distributed, group_size=2),
}

SHAPES: Final[dict[str, Topology]] = {
    "four CPUs": uniform(cores=4),
    "SMT": uniform(cores=4, threads=2),
    "SMT, siblings adjacent": uniform(cores=4, threads=2, adjacent=True),
    "two packages": uniform(packages=2, cores=2, threads=2),
    "two packages without SMT": uniform(packages=2, cores=4),
    "two nodes in a package": uniform(nodes=2, cores=2, threads=2),
    "two packages of two nodes": uniform(packages=2, nodes=2, cores=1, threads=2),
    "four nodes without SMT": uniform(packages=4, cores=2),
    "four caches": topology(
        cores=[CPUSet.of(n) for n in range(8)], caches=[CPUSet.of(n, n + 1) for n in range(0, 8, 2)]
    ),
    "two caches with SMT": topology(
        cores=[CPUSet.of(n, n + 4) for n in range(4)], caches=[CPUSet.of(0, 1, 4, 5), CPUSet.of(2, 3, 6, 7)]
    ),
    "half cores": topology(cores=[CPUSet.of(0, 1), CPUSet.of(2), CPUSet.of(3, 4), CPUSet.of(5)]),
    "an uneven pair of nodes": topology(
        cores=[CPUSet.of(0, 1), CPUSet.of(2, 3), CPUSet.of(4, 5), CPUSet.of(6, 7), CPUSet.of(8)],
        nodes={0: CPUSet.of(0, 1, 2, 3, 8), 1: CPUSet.of(4, 5, 6, 7)},
    ),
    "two nodes of two caches": topology(
        cores=[CPUSet.of(n) for n in range(12)],
        caches=[CPUSet(range(n, n + 3)) for n in range(0, 12, 3)],
        nodes={0: CPUSet(range(6)), 1: CPUSet(range(6, 12))},
    ),
}
"""Of at most twelve CPUs: every set of free CPUs can be tried."""


def free_sets(machine: Topology) -> Iterator[CPUSet]:
    """Yield every set of CPUs of a machine whose CPUs are numbered without gaps."""
    for mask in range(1 << len(machine.online)):
        yield CPUSet.from_mask(mask)


def touched(groups: tuple[Group, ...], cpus: CPUSet) -> list[Group]:
    """Return the groups that have one of these CPUs."""
    return [group for group in groups if not group.cpus.isdisjoint(cpus)]


def whole(groups: tuple[Group, ...], cpus: CPUSet) -> list[Group]:
    """Return the groups that lie entirely within these CPUs."""
    return [group for group in groups if group.cpus <= cpus]


def are_alike(groups: tuple[Group, ...]) -> bool:
    """Return whether all of them are of one size."""
    return len({len(group.cpus) for group in groups}) == 1
