"""Weighted max-min fairness in whole units: who gets how many of the CPUs that are to be shared out.

1. Everybody has its lowest size, even where there are not so many.
2. While CPUs are left, one unit goes to whoever has the least above its floor for its weight, among those whom it does
   not bring above its highest size. Ties: who has stayed longest, then the name.

So nobody can be given more without taking from somebody who has no more for its weight than that (within one unit).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from math import lcm

import msgspec

from state.key import ContainerKey


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Whose, between what sizes in CPUs, above which floor it counts as more than its due, and in units of how many."""

    key: ContainerKey
    floor: int
    lowest: int
    highest: int
    weight: int = 1
    unit: int = 1
    since: int = 0
    name: str = ""


def fair(capacity: int, claims: Sequence[Claim]) -> dict[ContainerKey, int]:
    """The size of each claim. Their sum is at most `capacity`, unless the lowest sizes alone are more."""
    # 1. What they have anyway.
    sizes = [claim.lowest for claim in claims]
    left = capacity - sum(sizes)
    # What one CPU counts for each, as whole numbers: the same for all, divided by the weight.
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
