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
from sidecar.decide.books.grants import options_of, place, placed
from sidecar.decide.books.size_causes import taken_over
from sidecar.decide.books.sizes import Claims, least_for, sizes
from sidecar.decide.books.takes import changed
from sidecar.decide.books.would_fit import with_what_fits
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.placement.whole_cores import is_by_cores
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment, State
from state.refusal import Refusal


class Arrivals:
    """The search for the CPUs of all demands that arrive in one decision. What it learns of a grant, it remembers as
    long as that stays the same: so a burst of demands looks at each grant once.
    """

    def __init__(self, world: World) -> None:
        self.claims = Claims(world)
        self._world = world
        self._lost: dict[tuple[ContainerKey, int], tuple[Assignment, CPUSet]] = {}

    def found_for(self, state: State, demand: Demand) -> CPUSet | Refusal:
        """Return CPUs for a demand, out of free CPUs and those of other grants; or why there are none."""
        world, trial, count = self._world, state, demand.cpus
        for count, targets in self._trials(state, demand):
            trial = self.shrunk_to(state, targets)
            if found := placed(world, trial, demand, count):
                # 3. No further than needed.
                return self._with_the_fewest(state, targets, demand, count) or found
        refused = place(world, trial, demand, count)
        assert isinstance(refused, Refusal)
        refused = with_what_fits(world, trial, demand, refused)
        is_shrunk = any(len(each.cpus) > self.claims.of(each).floor for each in state.assignments.values())
        return with_facts(refused, at_floors=True) if is_shrunk else refused

    def at_floors(self, state: State) -> State:
        """Return the State with each grant shrunk to its floor: beside these, a demand is refused at last."""
        return self.shrunk_to(state, self._floors(state))

    def shrunk_to(self, state: State, targets: Mapping[ContainerKey, int]) -> State:
        """Return the State with each grant above its target shrunk to it. It is a trial only: no cause is recorded."""
        shrunk = {
            key: replace(each, cpus=each.cpus - self._given_up(each, surplus))
            for key, target in targets.items()
            if (surplus := len((each := state.assignments[key]).cpus) - target) > 0
        }
        return replace(state, assignments={**state.assignments, **shrunk}) if shrunk else state

    def _given_up(self, grant: Assignment, count: int) -> CPUSet:
        known = self._lost.get((grant.container, count))
        if known is None or known[0] is not grant:
            is_whole = is_by_cores(options_of(self._world, grant.demand))
            known = grant, given_up(self._world.topology, grant, count, is_whole=is_whole)
            self._lost[grant.container, count] = known
        return known[1]

    def _trials(self, state: State, demand: Demand) -> Iterator[tuple[int, Mapping[ContainerKey, int]]]:
        """Yield the trials in order: a number of CPUs, and the sizes to which others are shrunk for it."""
        share = sizes(self.claims, state, {}, demand)
        wanted, least = share.pop(demand.container), least_for(self._world, demand)
        for count in dict.fromkeys((wanted, least)):
            # 1. From free CPUs, or from what is above the fair sizes.
            yield count, {}
            yield count, share
        # 2. From all that is above the floors.
        yield least, self._floors(state)

    def _floors(self, state: State) -> Mapping[ContainerKey, int]:
        return {key: self.claims.of(each).floor for key, each in state.assignments.items()}

    def _with_the_fewest(
        self, state: State, targets: Mapping[ContainerKey, int], demand: Demand, count: int
    ) -> CPUSet | None:
        """Return CPUs for the demand from others that are shrunk as little as possible towards these targets; None if
        that is not found to suffice.
        """
        claims = [
            Claim(
                key=key,
                floor=self.claims.of(each).floor,
                lowest=targets[key],
                highest=len(each.cpus),
                weight=each.demand.weight,
                unit=self.claims.of(each).unit,
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
            found = placed(self._world, self.shrunk_to(state, fair(Capacity(left, left), claims)), demand, count)
            if found:
                best, high = found, shrunk
            else:
                low = shrunk + 1
        return best


def without(world: World, state: State, cpus: CPUSet, demand: Demand) -> State:
    """Return the State in which all grants have given up these CPUs for a demand that arrived."""
    touched = [each for each in state.assignments.values() if not each.cpus.isdisjoint(cpus)]
    for each in sorted(touched, key=lambda each: each.since):
        lost = cut_off(world, each, each.cpus & cpus)
        state = changed(state, each.container, taken_over(world, each, len(lost), demand.name), lost=lost)
    return state
