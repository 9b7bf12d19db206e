"""Which numbers of CPUs would be granted in place of one that was refused: each has been tried."""

from __future__ import annotations

from sidecar.decide.books.grants import placed
from sidecar.decide.books.sizes import unit_for
from sidecar.decide.placement.shortfall import only_fitting
from sidecar.decide.world import World
from state.demand import Demand
from state.model import State
from state.refusal import Refusal


def with_what_fits(world: World, state: State, demand: Demand, refusal: Refusal) -> Refusal:
    """Return the refusal of a demand in this State, with only numbers that would be granted instead.

    The refusal counts free CPUs by one reason. Another may forbid its number: what the pool must keep, the NUMA rule,
    or the way in which the options lay out fewer CPUs. Then a smaller number is found by bisection.
    """
    return only_fitting(
        refusal,
        unit_for(world, demand),
        lambda count: placed(world, state, demand, count) is not None,
    )
