"""Weighted max-min fairness in whole units: how many of the CPUs to be shared out each claim gets.

1. Each claim gets its lowest size, even if there are too few CPUs for that.
2. While CPUs are left, one unit goes to the claim that has the least above its floor for its weight. A claim that the
   unit would bring above its highest size is passed over, and a claim for whole cores if no whole core is left. Ties:
   the claim that has stayed longest, then the name.

So no claim can get more without taking from one that has no more for its weight (within one unit).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import lcm
from typing import NamedTuple

import msgspec

from state.key import ContainerKey


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A container's claim, between its `lowest` and `highest` size in CPUs, in steps of `unit`.

    What it has above `floor` counts against its `weight`. `by_cores`: it can use whole cores only.
    """

    key: ContainerKey
    floor: int
    lowest: int
    highest: int
    weight: int = 1
    unit: int = 1
    by_cores: bool = False
    since: int = 0
    name: str = ""


class Capacity(NamedTuple):
    """How many CPUs there are to share out, and how many of these to claims for whole cores."""

    cpus: int
    in_cores: int

    def without(self, claims: Sequence[Claim]) -> Capacity:
        """Return what is left beside the lowest sizes of these claims; below 0 if these are too many."""
        by_cores = sum(claim.lowest for claim in claims if claim.by_cores)
        return Capacity(self.cpus - sum(claim.lowest for claim in claims), self.in_cores - by_cores)

    def holds(self, claims: Sequence[Claim]) -> bool:
        """Return whether the lowest sizes of these claims fit."""
        return min(self.without(claims)) >= 0


def fair(capacity: Capacity, claims: Sequence[Claim]) -> dict[ContainerKey, int]:
    """Return the size of each claim. They fit into the capacity, unless the lowest sizes alone exceed it."""
    # 1. The lowest sizes.
    sizes = [claim.lowest for claim in claims]
    left, left_in_cores = capacity.without(claims)
    # The worth of one CPU to each claim, as a whole number: inversely proportional to the weight.
    common = lcm(*(claim.weight for claim in claims))
    worth = [common // claim.weight for claim in claims]
    # 2. Unit by unit.
    queue = [
        ((claim.lowest - claim.floor) * worth[place], claim.since, claim.name, place)
        for place, claim in enumerate(claims)
        if claim.lowest < claim.highest
    ]
    heapify(queue)
    while queue and left > 0:
        place = queue[0][3]
        claim, size = claims[place], sizes[place]
        # A size that is not in whole units is completed first.
        step = claim.unit - size % claim.unit
        if step > (min(left, left_in_cores) if claim.by_cores else left) or size + step > claim.highest:
            heappop(queue)
            continue
        sizes[place] += step
        left -= step
        left_in_cores -= step if claim.by_cores else 0
        heapreplace(queue, ((size + step - claim.floor) * worth[place], claim.since, claim.name, place))
    return {claim.key: size for claim, size in zip(claims, sizes, strict=True)}
