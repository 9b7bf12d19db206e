"""NUMA affinity: the nodes that should serve a request, as the kubelet's topology manager decides for CPUs alone.

A set of nodes can serve a request if enough of its CPUs are free. It is *preferred* if no smaller set of this machine
could serve it even with every CPU free, so the preference does not depend on present grants. With `align-by-socket` a
set is also preferred if it spans no more sockets than necessary.

The kubelet lists every set of nodes, and then merges the list: preferred before others, then the smallest, then the one
whose nodes have the lowest numbers. With 64 nodes that list has 2^64 entries. The result can be found without the list:

1. The size of the smallest sets that could ever serve: the largest nodes first, until their CPUs suffice.
2. Of the sets of that size that can serve now, the first. All of these are preferred.
3. With align-by-socket, the smallest set within the fewest sockets: it is preferred as well.
4. Otherwise, the smallest set that can serve now: it is not preferred.

The first of the sets of one size is the one with the lowest highest node, then the lowest second-highest node, and so
on (the order of the bit masks as numbers). So each node is chosen as low as the nodes below it allow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from heapq import heappush, heappushpop
from itertools import accumulate, combinations
from math import comb
from typing import Final

import msgspec

from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule
from state.topology import Topology

_MOST_SOCKET_SETS: Final = 252
"""Sets of sockets that are tried one by one: enough for all sets of a machine with 10 sockets, in 3 ms at most. If a
request would need more sets, align-by-socket does not count as a preference.
"""


class Affinity(msgspec.Struct, frozen=True):
    """The nodes that should serve a request, by ascending id; None for any. `is_admitted` is false if the rule forbids
    to serve it now.
    """

    nodes: tuple[int, ...] | None
    is_preferred: bool
    is_admitted: bool = True


ANYWHERE: Final = Affinity(None, is_preferred=True)


def affinity(topology: Topology, available: CPUSet, count: int, rule: NumaRule, *, by_socket: bool = False) -> Affinity:
    """Return the nodes that should serve `count` CPUs under this rule: `merged` of all `hints`, not listed."""
    if rule is NumaRule.NONE:
        return ANYWHERE
    return _under(rule, topology, _best(topology, available, count, by_socket=by_socket))


def hints(
    topology: Topology, available: CPUSet, count: int, *, by_socket: bool = False, held: CPUSet = EMPTY
) -> Iterator[Affinity]:
    """Yield each set of nodes that can serve, the smallest first, then by node ids. There may be 2^nodes of them.

    `held` are CPUs that the request already has, and keeps as part of `count`: each set of nodes must contain them all.
    """
    least = _least_nodes(topology, count)
    for size in range(1, len(topology.nodes) + 1):
        for chosen in combinations(topology.nodes, size):
            inside = union(node.cpus for node in chosen)
            if held <= inside and len(available & inside) + len(held) >= count:
                is_near = by_socket and size > least and _sockets(topology, inside) <= _least_sockets(topology, least)
                is_preferred = size == least or is_near
                yield Affinity(tuple(node.id for node in chosen), is_preferred)


def merged(topology: Topology, listed: Iterable[Affinity], rule: NumaRule) -> Affinity:
    """Return the hint that the kubelet's topology manager selects from a list, if CPUs are the only resource."""
    if rule is NumaRule.NONE:
        return ANYWHERE
    best = min(listed, key=lambda each: (not each.is_preferred, _rank(each.nodes or ())), default=None)
    return _under(rule, topology, best)


def _under(rule: NumaRule, topology: Topology, best: Affinity | None) -> Affinity:
    """Return the best set of nodes as the rule admits it."""
    nowhere = Affinity(None, is_preferred=False, is_admitted=rule is NumaRule.BEST_EFFORT)
    if best is None or best.nodes is None:
        return nowhere
    if rule is NumaRule.SINGLE:
        if not best.is_preferred or len(best.nodes) > 1:
            return nowhere
        # On a machine of one node there is nothing to prefer.
        return ANYWHERE if len(topology.nodes) == 1 else best
    return Affinity(best.nodes, best.is_preferred, best.is_preferred or rule is NumaRule.BEST_EFFORT)


def _best(topology: Topology, available: CPUSet, count: int, *, by_socket: bool) -> Affinity | None:
    free = {node.id: len(node.cpus & available) for node in topology.nodes}
    # 1. The size of the smallest sets that could ever serve.
    least = _least_nodes(topology, count)
    # 2. The first of that size.
    if found := _first_set(free, least, count):
        return Affinity(found, is_preferred=True)
    # 3. The smallest within the fewest sockets.
    if by_socket and (found := _within_sockets(topology, free, least, count)):
        return Affinity(found, is_preferred=True)
    # 4. The smallest of all.
    found = _smallest_set(free, count)
    return Affinity(found, is_preferred=False) if found else None


def _within_sockets(topology: Topology, free: Mapping[int, int], least: int, count: int) -> tuple[int, ...] | None:
    """Return the first of the smallest sets of nodes within as few sockets as necessary; None if there is none.

    1. List the sets of so many sockets. The smallest set of nodes in each has the nodes with the most free CPUs. Only
       sets of sockets go on, as rivals, whose smallest set is the smallest of all.
    2. From the highest node down: a rival does without it if the best of its lower nodes suffice. If any does, the
       others are out; else the node is in the result.
    """
    sockets = _least_sockets(topology, least)
    if comb(len(topology.packages), sockets) > _MOST_SOCKET_SETS:
        return None
    # 1. The sets of sockets.
    rivals: list[_Rival] = []
    for chosen in combinations([1 << n for n in range(len(topology.packages))], sockets):
        outside = ~sum(chosen)
        nodes = [id for id, touched in topology.packages_of.items() if not touched & outside]
        together = [*accumulate(sorted([free[id] for id in nodes], reverse=True))]
        size = bisect_left(together, count) + 1
        if size > len(together) or (rivals and size > rivals[0].missing):
            continue
        if rivals and size < rivals[0].missing:
            rivals = []
        rivals.append(_Rival(frozenset(nodes), sorted([free[id] for id in nodes]), size, count))
    # 2. From the highest node down.
    found: list[int] = []
    for id in sorted(free, reverse=True):
        if not rivals or not rivals[0].missing:
            break
        sparing = [rival for rival in rivals if id not in rival.nodes or rival.spares(free[id])]
        if sparing:
            rivals = sparing
            continue
        found.append(id)
        for rival in rivals:
            rival.missing -= 1
            rival.count -= free[id]
    return tuple(reversed(found)) or None


class _Rival:
    """A set of sockets in a search: its nodes, the free CPUs of those not considered yet, ascending, how many nodes are
    missing, and how many CPUs these must have.
    """

    def __init__(self, nodes: frozenset[int], below: list[int], missing: int, count: int) -> None:
        self.nodes = nodes
        self.below = below
        self.missing = missing
        self.count = count

    def spares(self, free: int) -> bool:
        """Consider a node with so many free CPUs; return whether the best of the lower nodes suffice without it."""
        del self.below[bisect_left(self.below, free)]
        return sum(self.below[-self.missing :]) >= self.count


def _smallest_set(free: Mapping[int, int], count: int) -> tuple[int, ...] | None:
    """Return the first of the smallest sets of nodes with `count` free CPUs; None if all nodes together have fewer."""
    total = 0
    for size, each in enumerate(sorted(free.values(), reverse=True), 1):
        total += each
        if total >= count:
            return _first_set(free, size, count)
    return None


def _first_set(free: Mapping[int, int], size: int, count: int) -> tuple[int, ...] | None:
    """Return the first set of `size` nodes with `count` free CPUs; None if no set of that size has so many."""
    chosen: list[int] = []
    below = sorted(free)
    for others in range(size - 1, -1, -1):
        # The next highest node: the lowest that has enough together with the best `others` of the nodes below it.
        best: list[int] = []
        total = 0
        for position, id in enumerate(below):
            if position >= others and free[id] + total >= count:
                chosen.append(id)
                count -= free[id]
                below = below[:position]
                break
            # The best of the nodes below, as a heap of their free CPUs, and its total.
            total += free[id]
            if len(best) < others:
                heappush(best, free[id])
            else:
                total -= heappushpop(best, free[id])
        else:
            return None
    return tuple(reversed(chosen))


def _rank(nodes: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return a sort key: the smaller set first, then the set with the smaller bit mask as a number."""
    return len(nodes), nodes[::-1]


def _least_nodes(topology: Topology, count: int) -> int:
    """Return how many nodes a request of this size needs with every CPU free; all nodes if even these are too few."""
    total = 0
    for number, size in enumerate(sorted((len(node.cpus) for node in topology.nodes), reverse=True), 1):
        total += size
        if total >= count:
            return number
    return len(topology.nodes)


def _least_sockets(topology: Topology, nodes: int) -> int:
    """Return how many sockets so many nodes fill, as the kubelet counts: by the average number of nodes in a socket,
    rounded down. All sockets if that comes to more.
    """
    in_a_socket = max(1, len(topology.nodes) // len(topology.packages))
    return min(-(-nodes // in_a_socket), len(topology.packages))


def _sockets(topology: Topology, cpus: CPUSet) -> int:
    return sum(1 for package in topology.packages if not package.cpus.isdisjoint(cpus))
