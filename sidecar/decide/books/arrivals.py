"""The CPUs for a demand that arrives under `dynamic`: free ones, or the fewest that other grants can give up for it.

1. First the fair size, then the floor; for each, from free CPUs, else from what other grants have above their fair
   sizes.
2. At last the floor, from all that other grants have above their floors.
3. Other grants are shrunk no further than the demand needs: a shrink by fewer CPUs is preferred, shared by weight as in
   `fair`. Otherwise grants would give up CPUs, and gain others, in the same decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.decide.books.fair import Capacity, Claim, fair
from sidecar.decide.books.gains_and_losses import cut_off, given_up
from sidecar.decide.books.grants import options_of, place
from sidecar.decide.books.sizes import least_for, least_of, sizes, unit_for
from sidecar.decide.books.takes import changed
from sidecar.decide.books.would_fit import with_what_fits
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.placement.whole_cores import is_by_cores
from sidecar.decide.world import World, replace
from state.cause import TakenOver
from state.cpuset import CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import State
from state.refusal import Refusal


def found_for(world: World, state: State, demand: Demand) -> CPUSet | Refusal:
    """Return CPUs for a demand, out of free CPUs and those of other grants; or why there are none."""
    found: CPUSet | Refusal | None = None
    trial = state
    for count, targets in _trials(world, state, demand):
        trial = shrunk_to(world, state, targets)
        found = place(world, trial, demand, count)
        if isinstance(found, CPUSet):
            # 3. No further than needed.
            return _with_the_fewest(world, state, targets, demand, count) or found
    assert isinstance(found, Refusal)
    found = with_what_fits(world, trial, demand, found)
    is_shrunk = any(len(each.cpus) > least_of(world, each) for each in state.assignments.values())
    return with_facts(found, at_floors=True) if is_shrunk else found


def without(world: World, state: State, cpus: CPUSet, demand: Demand) -> State:
    """Return the State in which all grants have given up these CPUs for a demand that arrived."""
    for key, each in sorted(state.assignments.items(), key=lambda item: item[1].since):
        if taken := each.cpus & cpus:
            lost = cut_off(world, each, taken)
            cause = TakenOver(name=each.name, count=len(lost), floor=least_of(world, each), arrived=demand.name)
            state = changed(state, key, cause, lost=lost)
    return state


def shrunk_to(world: World, state: State, targets: Mapping[ContainerKey, int]) -> State:
    """Return the State with each grant above its target shrunk to it. It is a trial only: no cause is recorded."""
    shrunk = {}
    for key, each in state.assignments.items():
        if key in targets and (surplus := len(each.cpus) - targets[key]) > 0:
            is_whole = is_by_cores(options_of(world, each.demand))
            lost = given_up(world.topology, each, surplus, is_whole=is_whole)
            shrunk[key] = replace(each, cpus=each.cpus - lost)
    return replace(state, assignments={**state.assignments, **shrunk}) if shrunk else state


def _trials(world: World, state: State, demand: Demand) -> Iterator[tuple[int, Mapping[ContainerKey, int]]]:
    """Yield the trials in order: a number of CPUs, and the sizes to which others are shrunk for it."""
    share = sizes(world, state, {}, demand)
    wanted, least = share.pop(demand.container), least_for(world, demand)
    for count in dict.fromkeys((wanted, least)):
        # 1. From free CPUs, or from what is above the fair sizes.
        yield count, {}
        yield count, share
    # 2. From all that is above the floors.
    yield least, {key: least_of(world, each) for key, each in state.assignments.items()}


def _with_the_fewest(
    world: World, state: State, targets: Mapping[ContainerKey, int], demand: Demand, count: int
) -> CPUSet | None:
    """Return CPUs for the demand from others that are shrunk as little as possible towards these targets; None if that
    is not found to suffice.
    """
    claims = [
        Claim(
            key=key,
            floor=least_of(world, each),
            lowest=targets[key],
            highest=len(each.cpus),
            weight=each.demand.weight,
            unit=unit_for(world, each.demand, each.cpus),
            since=each.since,
            name=each.name,
        )
        for key, each in state.assignments.items()
        if key in targets and targets[key] < len(each.cpus)
    ]
    most = sum(claim.highest - claim.lowest for claim in claims)
    best: CPUSet | None = None
    low, high = 0, most
    while low < high:
        shrunk = (low + high) // 2
        left = sum(claim.highest for claim in claims) - shrunk
        found = place(world, shrunk_to(world, state, fair(Capacity(left, left), claims)), demand, count)
        if isinstance(found, CPUSet):
            best, high = found, shrunk
        else:
            low = shrunk + 1
    return best
