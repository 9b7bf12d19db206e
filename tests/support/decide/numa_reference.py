"""What `distributed` must equal, written as it is described: every set of members, every subset, every dealing.

It has the three later fixes: only whole groups count, a find is not overwritten, and only free CPUs count as free.
`exactly` compares the sums of squares; else deviations are rounded to three decimals, half away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.order.taking import Taking
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology

Found = tuple[tuple[int, ...], dict[int, int]]
"""The places of the members, and how many CPUs of the rest each of them is dealt."""


def reference(topology: Topology, available: CPUSet, count: int, group: int, *, exactly: bool = True) -> CPUSet | None:
    """Return the CPUs taken, or None if there are too few."""
    free = available & topology.online
    if count < 1:
        return EMPTY
    if count > len(free):
        return None
    if count % group:
        return packed(topology, free, count)
    nodes = [CPUSet.from_mask(mask) & free for mask in Taking(topology.tree, free.mask, count).nodes()]
    per_node = math.ceil(math.ceil(len(topology.online) / group) / len(topology.nodes))
    needed = math.ceil(count / group)
    for members in range(math.ceil(needed / per_node), min(needed, len(nodes)) + 1):
        found = best_members([len(node) for node in nodes], count, group, members, exactly=exactly)
        if found is not None:
            return taken(topology, nodes, count, group, found)
    return packed(topology, free, count)


def best_members(free: Sequence[int], count: int, group: int, members: int, *, exactly: bool) -> Found | None:
    """Return the first of the most even choices of this many members; None if there is none."""
    share = count // members // group * group
    best: tuple[float, Found] | None = None
    for chosen in combinations(range(len(free)), members):
        own = [free[place] for place in chosen]
        if sum(own) < count or sum(each // group * group for each in own) < count or min(own) < share:
            continue
        found = best_dealing(free, count - share * members, group, share, chosen, exactly=exactly)
        if found is not None and (best is None or found[0] < best[0]):
            best = found
            if not best[0]:
                break
    return best[1] if best else None


def best_dealing(
    free: Sequence[int], rest: int, group: int, share: int, chosen: tuple[int, ...], *, exactly: bool
) -> tuple[float, Found] | None:
    """Return the first of the most even dealings of the rest among these members, larger subsets first."""
    left = [each - share if place in chosen else each for place, each in enumerate(free)]
    if not rest:
        return unevenness(left, exactly=exactly), (chosen, {})
    able = [place for place in chosen if left[place] >= group]
    best: tuple[float, Found] | None = None
    for size in range(len(able), 0, -1):
        for subset in combinations(able, size):
            if sum(left[place] // group * group for place in subset) < rest:
                continue
            dealt = dealing(left, rest, group, subset)
            score = unevenness([each - dealt.get(place, 0) for place, each in enumerate(left)], exactly=exactly)
            if best is None or score < best[0]:
                best = (score, (chosen, dealt))
    return best


def dealing(left: Sequence[int], rest: int, group: int, subset: Sequence[int]) -> dict[int, int]:
    """Deal out the rest, group by group, round-robin, skipping members without a whole group left."""
    dealt = dict.fromkeys(subset, 0)
    while rest:
        for place in subset:
            if rest and left[place] - dealt[place] >= group:
                dealt[place] += group
                rest -= group
    return dealt


def unevenness(left: Sequence[int], *, exactly: bool) -> float:
    """Return a number that is smaller where these are more even, for the same sum; 0 only if all are equal."""
    if exactly:
        return len(left) * sum(each * each for each in left) - sum(left) ** 2
    mean = rounded(sum(left) / len(left))
    return rounded(math.sqrt(sum((each - mean) ** 2 for each in left) / len(left)))


def rounded(value: float) -> float:
    """Round to three decimals, half away from zero."""
    return math.floor(value * 1000 + 0.5) / 1000


def taken(topology: Topology, nodes: Sequence[CPUSet], count: int, group: int, found: Found) -> CPUSet:
    """Return the CPUs: from each member its share, then group by group what it was dealt."""
    chosen, dealt = found
    share = count // len(chosen) // group * group
    total = EMPTY
    for place in chosen:
        for amount in (share, *[group] * (dealt.get(place, 0) // group)):
            total |= packed(topology, nodes[place] - total, amount) or EMPTY
    return total
