"""Weighted max-min fairness in whole units: who gets how many of the CPUs that are to be shared out.

1. Everybody has its lowest size, even where there are not so many.
2. While CPUs are left, one unit goes to whoever has the least above its floor for its weight, among those whom it does
   not bring above its highest size. Ties: who has stayed longest, then the name.

So nobody can be given more without taking from somebody who has no more for its weight than that (within one unit).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heapify, heappop, heapreplace

import msgspec


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Whose, between what sizes in CPUs, above which floor it counts as more than its due, and in units of how many."""

    key: str
    floor: int
    lowest: int
    highest: int
    weight: int = 1
    unit: int = 1
    since: int = 0
    name: str = ""


def fair(capacity: int, claims: Sequence[Claim]) -> dict[str, int]:
    """The size of each claim. Their sum is at most `capacity`, unless the lowest sizes alone are more."""
    # 1. What they have anyway.
    sizes = {claim.key: claim.lowest for claim in claims}
    left = capacity - sum(sizes.values())
    # 2. Unit by unit.
    queue = [
        (_above(claim, claim.lowest), claim.since, claim.name, place)
        for place, claim in enumerate(claims)
        if claim.lowest + claim.unit <= claim.highest
    ]
    heapify(queue)
    while queue and left > 0:
        claim = claims[queue[0][3]]
        grown = sizes[claim.key] + claim.unit
        if claim.unit > left or grown > claim.highest:
            heappop(queue)
            continue
        sizes[claim.key] = grown
        left -= claim.unit
        heapreplace(queue, (_above(claim, grown), claim.since, claim.name, queue[0][3]))
    return sizes


def _above(claim: Claim, size: int) -> Fraction:
    return Fraction(size - claim.floor, claim.weight)
