"""Faults of whole cores and of sharing out, each a rule that is broken in one place: the histories catch each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pytest

from sidecar.decide import reconcile
from sidecar.decide.books import arrivals, dynamic, gains_and_losses, original_set, sizes
from sidecar.decide.books.arrivals import Arrivals
from sidecar.decide.books.fair import Capacity, Claim, fair
from sidecar.decide.placement import choose
from sidecar.decide.placement.whole_cores import takeable
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment, State
from state.topology import Topology
from tests.decide.lawbook import laws
from tests.decide.lawbook.faults import Fault


def takes_half_free_cores(patch: pytest.MonkeyPatch) -> None:
    """Place whole cores on any free CPUs, with the other threads reserved or another container's."""

    def any_free(topology: Topology, options: Collection[str], free: CPUSet) -> CPUSet:
        return free

    patch.setattr(choose, "takeable", any_free)


def grows_by_single_threads(patch: pytest.MonkeyPatch) -> None:
    for module in (gains_and_losses, sizes):
        patch.setattr(module, "unit_of", lambda topology, options, held=None: 1)
    patch.setattr(gains_and_losses, "takeable", lambda topology, options, free: free)


def leaves_the_other_thread(patch: pytest.MonkeyPatch) -> None:
    """Take only the CPUs that an arrival gets, and leave their siblings where they are."""
    patch.setattr(arrivals, "cut_off", lambda world, assignment, lost: lost)


def counts_floors_in_cpus(patch: pytest.MonkeyPatch) -> None:
    """Shrink a container of whole cores to its floor, in the middle of a core."""

    def least(world: World, assignment: Assignment) -> int:
        return assignment.demand.floor

    def given_up(topology: Topology, assignment: Assignment, count: int, *, is_whole: bool = False) -> CPUSet:
        return CPUSet(list(assignment.cpus - assignment.original)[-count:])

    patch.setattr(sizes, "least_of", least)
    patch.setattr(arrivals, "given_up", given_up)
    patch.setattr(arrivals, "cut_off", lambda world, assignment, lost: lost)


def shrinks_others_as_far_as_is_fair(patch: pytest.MonkeyPatch) -> None:
    """Choose an arrival's CPUs among all that others have above their floors, though fewer suffice."""

    def trials(search: Arrivals, state: State, demand: Demand) -> Iterator[tuple[int, Mapping[ContainerKey, int]]]:
        floors = {key: each.demand.floor for key, each in state.assignments.items()}
        yield sizes.least_for(search.claims.world, demand), floors

    patch.setattr(Arrivals, "_trials", trials)
    patch.setattr(Arrivals, "_with_the_fewest", lambda *_: None)


def lets_no_growth_be_small(patch: pytest.MonkeyPatch) -> None:
    """Make no change smaller than the least change, not even onto CPUs that are idle."""
    honest = sizes._without_small_changes

    def without(world: World, state: State, room: Capacity, claims: list[Claim]) -> dict[ContainerKey, int]:
        found = honest(world, state, room, claims)
        now = {key: len(each.cpus) for key, each in state.assignments.items()}
        least = world.settings.min_change
        return {key: now[key] if key in now and 0 < size - now[key] < least else size for key, size in found.items()}

    patch.setattr(sizes, "_without_small_changes", without)


def shares_out_less_than_there_is(patch: pytest.MonkeyPatch) -> None:
    """Keep two CPUs back for nothing."""

    def less(capacity: Capacity, claims: list[Claim]) -> dict[ContainerKey, int]:
        return fair(Capacity(capacity.cpus - 2, capacity.in_cores - 2), claims)

    patch.setattr(sizes, "fair", less)


def admits_by_floors_in_cpus(patch: pytest.MonkeyPatch) -> None:
    """Admit by floors in CPUs, and let the containers of whole cores keep their cores."""
    honest = Arrivals.shrunk_to

    def shrunk(search: Arrivals, state: State, targets: Mapping[ContainerKey, int]) -> State:
        made = honest(search, state, targets)
        for each in made.assignments.values():
            whole = takeable(search.claims.world.topology, each.demand.options or (), each.cpus)
            if each.demand.options and whole == each.cpus and len(whole) > each.demand.floor:
                made = made.holding(_with_cpus(each, CPUSet(list(each.cpus)[: each.demand.floor])))
        return made

    patch.setattr(Arrivals, "shrunk_to", shrunk)
    patch.setattr(arrivals, "without", lambda world, state, cpus, demand: state)
    patch.setattr(dynamic, "without", lambda world, state, cpus, demand: state)


def completes_an_original_set_from_anywhere(patch: pytest.MonkeyPatch) -> None:
    """Keep what is left of an original set on every core, and complete it from the nearest CPUs."""
    patch.setattr(original_set, "_counts_in_cores", lambda world, grant: False)


def forgets_threads_that_are_offline(patch: pytest.MonkeyPatch) -> None:
    """Count the threads of a core among the online CPUs alone: where each core lacks one, every half is whole."""
    patch.setattr(reconcile, "with_known_cores", lambda machine, known: machine)


def _with_cpus(assignment: Assignment, cpus: CPUSet) -> Assignment:
    return replace(assignment, cpus=cpus)


FAULTS = (
    Fault(takes_half_free_cores, laws.WHOLE, first=29),
    Fault(grows_by_single_threads, laws.WHOLE, first=2172),
    Fault(leaves_the_other_thread, laws.WHOLE, first=4411),
    Fault(counts_floors_in_cpus, laws.WHOLE, first=4411),
    Fault(lets_no_growth_be_small, laws.SPARE, first=274),
    Fault(shares_out_less_than_there_is, laws.SPARE, first=11),
    Fault(admits_by_floors_in_cpus, laws.BOOKS, first=805),
)
"""Among containers of which some require whole cores."""

PLAIN_FAULTS = (Fault(shrinks_others_as_far_as_is_fair, laws.NEEDLESS, first=1470),)
"""Among containers that can use any CPU."""
