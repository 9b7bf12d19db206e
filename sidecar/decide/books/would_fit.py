"""Which numbers of CPUs would be granted in place of one that was refused: each has been tried."""

from __future__ import annotations

from sidecar.decide.books.grants import place
from sidecar.decide.books.sizes import unit_for
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.model import Demand, State
from state.refusal import Asked, Refusal


def with_what_fits(world: World, state: State, demand: Demand, refusal: Refusal) -> Refusal:
    """Return the refusal of a demand in this State, with only numbers that would be granted instead.

    The refusal counts free CPUs by one reason. Another may forbid its number: what the pool must keep, the NUMA rule,
    or the way in which the options lay out fewer CPUs. Then a smaller number is found by bisection.
    """
    detail = refusal.detail
    if not isinstance(detail, Asked) or not detail.would_fit:
        return refusal
    unit = unit_for(world, demand)

    def fits(count: int) -> bool:
        return isinstance(place(world, state, demand, count), CPUSet)

    fewer = max((count for count in detail.would_fit if count < detail.count), default=0)
    more = [count for count in detail.would_fit if count > detail.count and fits(count)]
    if fewer and not fits(fewer):
        low, high = 0, -(-fewer // unit)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle * unit) else (low, middle)
        fewer = low * unit
    return with_facts(refusal, would_fit=(*([fewer] if fewer else []), *more))
