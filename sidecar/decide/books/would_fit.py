"""Which numbers of CPUs would be granted in place of one that was refused: each has been tried."""

from __future__ import annotations

from sidecar.decide.books.grants import place, placed
from sidecar.decide.books.sizes import unit_for
from sidecar.decide.placement.shortfall import only_fitting, with_facts
from sidecar.decide.world import World
from state.demand import Demand
from state.model import State
from state.refusal import (
    Asked,
    CutCore,
    InCores,
    Limit,
    NoMultiple,
    OnNodes,
    PoolEmptied,
    PoolKeeps,
    Refusal,
    Scattered,
    TooFewWholeCores,
)


def with_what_fits(world: World, state: State, demand: Demand, refusal: Refusal) -> Refusal:
    """Return the refusal of a demand in this State, with only numbers that would be granted instead.

    The refusal counts free CPUs by one reason. Another may forbid its number: what the pool must keep, the NUMA rule,
    or the way in which the options lay out fewer CPUs. Then a smaller number is found by bisection, and the other
    reason is told as well.
    """
    unit = unit_for(world, demand)
    told = only_fitting(refusal, unit, lambda count: placed(world, state, demand, count) is not None)
    most, fitting = _below(refusal), _below(told)
    return with_facts(told, limit=_limit_at(world, state, demand, fitting + unit, told)) if fitting < most else told


def _below(refusal: Refusal) -> int:
    """Return the largest number that a refusal names of those below the number that was asked for; 0 if none."""
    detail = refusal.detail
    if not isinstance(detail, Asked):
        return 0
    return max((count for count in detail.would_fit if count < detail.count), default=0)


def _limit_at(world: World, state: State, demand: Demand, count: int, told: Refusal) -> Limit | None:
    """Return why so many CPUs would not fit, though they are free; None if what is told gives that reason."""
    found = place(world, state, demand, count)
    detail = found.detail if isinstance(found, Refusal) else None
    if type(detail) is type(told.detail):
        return None
    match detail:
        case PoolEmptied(keep=keep, by_cores=by_cores):
            return PoolKeeps(keep, by_cores=by_cores)
        case Scattered(numa=numa):
            return OnNodes(numa)
        case TooFewWholeCores() | CutCore() | NoMultiple():
            return InCores()
        case _:
            return None
