"""So many CPUs in order of preference: tier by tier, by the algorithm in each."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sidecar.decide.placement.take import take
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


def beside(
    topology: Topology, tiers: Iterable[CPUSet], count: int, options: Collection[str], *, unit: int = 1
) -> CPUSet:
    """Up to `count` CPUs out of disjoint tiers, the first ones first, in whole units: as many as there are."""
    chosen = EMPTY
    for tier in tiers:
        amount = min(count - len(chosen), len(tier))
        amount -= amount % unit
        if amount:
            chosen |= take(topology, tier, amount, options) or EMPTY
    return chosen
