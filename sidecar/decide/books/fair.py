"""Weighted max-min fairness in whole units: how many of the CPUs to be shared out each claim gets.

1. Each claim gets its lowest size, even if there are too few CPUs for that.
2. While CPUs are left, one unit goes to the claim that has the least above its floor for its weight. A claim that the
   unit would bring above its highest size is passed over. Ties: the claim that has stayed longest, then the name.

So no claim can get more without taking from one that has no more for its weight (within one unit).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import lcm

import msgspec

from state.key import ContainerKey


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A container's claim, between its `lowest` and `highest` size in CPUs, in steps of `unit`.

    What it has above `floor` counts against its `weight`.
    """

    key: ContainerKey
    floor: int
    lowest: int
    highest: int
    weight: int = 1
    unit: int = 1
    since: int = 0
    name: str = ""


def fair(capacity: int, claims: Sequence[Claim]) -> dict[ContainerKey, int]:
    """Return the size of each claim. Their sum is at most `capacity`, unless the lowest sizes alone exceed it."""
    # 1. The lowest sizes.
    sizes = [claim.lowest for claim in claims]
    left = capacity - sum(sizes)
    # The worth of one CPU to each claim, as a whole number: inversely proportional to the weight.
    common = lcm(*(claim.weight for claim in claims))
    worth = [common // claim.weight for claim in claims]
    # 2. Unit by unit.
    queue = [
        ((claim.lowest - claim.floor) * worth[place], claim.since, claim.name, place)
        for place, claim in enumerate(claims)
        if claim.lowest + claim.unit <= claim.highest
    ]
    heapify(queue)
    while queue and left > 0:
        place = queue[0][3]
        claim = claims[place]
        grown = sizes[place] + claim.unit
        if claim.unit > left or grown > claim.highest:
            heappop(queue)
            continue
        sizes[place] = grown
        left -= claim.unit
        heapreplace(queue, ((grown - claim.floor) * worth[place], claim.since, claim.name, place))
    return {claim.key: size for claim, size in zip(claims, sizes, strict=True)}
