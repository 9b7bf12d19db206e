"""How many CPUs each exclusive container should have: floors, ceilings, wishes, and cooling down.

1. The CPUs to share out are the room: all except the reserved CPUs, those of containers pinned by hand, and those that
   the shared pool must keep. Of these, containers with `full-pcpus-only` can have those on whole cores.
2. Each container claims from its floor up to its wish: its ceiling (`fill`), what its load calls for (`load`), or the
   ordered size (`manual`). An idle container does not grow.
3. A container that is cooling down keeps all its CPUs, with these exceptions:
   - a `fill` grew by spare CPUs: it keeps them against other `fill` containers, but the floors, and the fair sizes of
     `load` and `manual` containers, come first;
   - a `load` keeps them against its own smaller wish and all others, but not against a floor.
4. Fewer CPUs than the least change are not taken, unless a floor, an arrival or an order needs it: then the sizes are
   as fair as without this rule. A growth may have any size, so no CPU stays idle because it is less than that.
   What is above a ceiling that was lowered, by a rule or an option, goes all the same, cooling down or not.
5. One whose engine is not ready keeps its size: it cannot be ordered off, and others would wait for it.

Sizes are in units of each container: whole cores if its options require them. Its floor is rounded up to them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sidecar.decide.books.fair import Capacity, Claim, fair
from sidecar.decide.books.grants import is_in_whole_units, options_of
from sidecar.decide.books.load_wish import wished
from sidecar.decide.books.room import Room, room_in
from sidecar.decide.placement.whole_cores import is_by_cores, on_lacking_cores, rounded_up, takeable, unit_of
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand, Scale
from state.key import ContainerKey
from state.model import Assignment, State


class Claims:
    """What the grants of one world claim. Each claim is made once, as long as its grant stays the same."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._made: dict[ContainerKey, tuple[Assignment, Claim, int]] = {}
        self._most: dict[tuple[object, ...], int] = {}

    def of(self, assignment: Assignment) -> Claim:
        """Return what a grant claims: from its least size up to its wish."""
        return self._of(assignment)[1]

    def capacity(self, state: State, claims: Sequence[Claim]) -> Capacity:
        """Return how many CPUs there are to share out among the grants of a State, and one that arrives."""
        # 1. The room.
        room = room_in(self.world, state)
        cpus = self._most_in(room, by_cores=False)
        if not any(claim.by_cores for claim in claims):
            return Capacity(cpus, cpus)
        halves = sum(self._of(each)[2] for each in state.assignments.values())
        return Capacity(cpus, min(cpus, self._most_in(room, by_cores=True) + halves))

    def _of(self, assignment: Assignment) -> tuple[Assignment, Claim, int]:
        made = self._made.get(assignment.container)
        if made is None or made[0] is not assignment:
            halves = _halves(self.world, assignment.demand, assignment.cpus)
            made = self._made[assignment.container] = (assignment, _claim(self.world, assignment), len(halves))
        return made

    def _most_in(self, room: Room, *, by_cores: bool) -> int:
        # The rest of a room is the same in all States of a world.
        asked = (room.pool, room.givable | room.held, room.keeps_core, by_cores)
        if asked not in self._most:
            self._most[asked] = room.most(by_cores=by_cores)
        return self._most[asked]


def sizes(
    claims_of: Claims, state: State, caps: Mapping[ContainerKey, int], arrival: Demand | None = None
) -> dict[ContainerKey, int]:
    """Return the size that each grant should have, by container.

    `caps` are sizes above which some containers cannot be served. `arrival` is a demand to be granted as well: it
    claims from its floor up to the number that it asks for.
    """
    world, grants = claims_of.world, list(state.assignments.values())
    claims = [claims_of.of(each) for each in grants]
    if caps:
        claims = [_capped(claim, caps[claim.key]) if claim.key in caps else claim for claim in claims]
    fills = {each.container for each in grants if each.demand.scale is Scale.FILL}
    if arrival:
        claims.append(_first_claim(world, state, arrival))
    room = claims_of.capacity(state, claims)
    # 3. Cooling down.
    if any(each.cooling is not None for each in grants):
        claims = _calmed(world, state, room, claims, fills)
    # 4. No small change, unless it is for a container that arrives.
    if arrival:
        return fair(room, claims)
    return _without_small_changes(world, state, room, claims)


def unit_for(world: World, demand: Demand, held: CPUSet = EMPTY) -> int:
    """Return the step in CPUs by which the size of a grant of this demand changes, if it holds these CPUs. A grant that
    has cores in part, since CPUs went offline or its options changed, may gain or lose single CPUs.
    """
    options = options_of(world, demand)
    return 1 if not is_by_cores(options) or _halves(world, demand, held) else unit_of(world.topology, options, held)


def core_for(world: World, demand: Demand, held: CPUSet = EMPTY) -> int:
    """Return the unit in which a floor or an ordered size of this demand counts, if it holds these CPUs: a core under
    full-pcpus-only, also while it has some in part.
    """
    return unit_of(world.topology, options_of(world, demand), held)


def least_for(world: World, demand: Demand) -> int:
    """Return the fewest CPUs that a new grant of this demand may have: its floor, in whole units."""
    return rounded_up(demand.floor, unit_for(world, demand), most=demand.cpus)


def most_of(world: World, assignment: Assignment) -> int:
    """Return the most CPUs that a grant may have: its ceiling, in whole cores under full-pcpus-only, also while it has
    some in part. A core that lost a thread to the machine counts with what is left of it: beside one, any number comes
    to whole cores. One whose number comes to none was made under other options, and its ceiling counts in CPUs.
    """
    demand = assignment.demand
    if not is_in_whole_units(world, demand) or on_lacking_cores(world.topology, assignment.cpus):
        return demand.ceiling
    return demand.ceiling - demand.ceiling % core_for(world, demand, assignment.cpus)


def least_of(world: World, assignment: Assignment) -> int:
    """Return the fewest CPUs that a grant can shrink to: its floor, in whole units, and all that it never gives up."""
    demand, floor = assignment.demand, assignment.demand.floor
    in_units = rounded_up(floor, core_for(world, demand, assignment.cpus), most=demand.ceiling)
    return max(len(kept_of(world, assignment)), in_units)


def kept_of(world: World, assignment: Assignment) -> CPUSet:
    """Return the CPUs that a grant never gives up: its original set, under full-pcpus-only with all CPUs that it has on
    the cores of that set, unless its ceiling is below that.
    """
    original = assignment.original
    if not is_by_cores(options_of(world, assignment.demand)):
        return original
    in_cores = assignment.cpus & world.topology.whole_cores(original)
    return in_cores if len(in_cores) <= assignment.demand.ceiling else original


def wish_for(world: World, assignment: Assignment) -> int:
    """Return how many CPUs a grant wants, between its floor and its ceiling, regardless of other grants."""
    demand, most = assignment.demand, most_of(world, assignment)
    match demand.scale:
        case Scale.FILL:
            return most
        case Scale.LOAD:
            wish = wished(assignment, world.loads.get(assignment.container), world.settings.band)
            # Rounded down, one core that is not enough would never become two.
            return rounded_up(wish, unit_for(world, demand, assignment.cpus), most=most)
        case Scale.MANUAL:
            if assignment.ordered is None:
                return demand.cpus
            # A ceiling may be lower now than when it was ordered.
            return min(most, assignment.ordered - assignment.ordered % core_for(world, demand, assignment.cpus))


def _claim(world: World, assignment: Assignment) -> Claim:
    # 2. From the floor up to its wish.
    demand, now = assignment.demand, len(assignment.cpus)
    if world.is_absent(assignment.container):
        # 5.
        return replace(_in_units(world, demand, now, now, assignment.cpus, assignment.since), highest=now)
    container = world.containers.get(assignment.container)
    wish = wish_for(world, assignment)
    highest = min(wish, now) if container is None or container.is_idle else wish
    return _in_units(world, demand, least_of(world, assignment), highest, assignment.cpus, assignment.since)


def _capped(claim: Claim, cap: int) -> Claim:
    return replace(claim, lowest=min(claim.lowest, cap), highest=min(claim.highest, cap))


def _first_claim(world: World, state: State, demand: Demand) -> Claim:
    return _in_units(world, demand, least_for(world, demand), demand.cpus, EMPTY, state.grants)


def _in_units(world: World, demand: Demand, lowest: int, highest: int, held: CPUSet, since: int) -> Claim:
    unit = unit_for(world, demand, held)
    return Claim(
        key=demand.container,
        floor=lowest,
        lowest=lowest,
        highest=max(lowest, highest - highest % unit),
        weight=demand.weight,
        unit=unit,
        by_cores=is_by_cores(options_of(world, demand)),
        since=since,
        name=demand.name,
    )


def _halves(world: World, demand: Demand, held: CPUSet) -> CPUSet:
    """Return those of the CPUs held that are no whole cores, if its options require these."""
    return held - takeable(world.topology, options_of(world, demand), held)


def _calmed(
    world: World, state: State, room: Capacity, claims: Sequence[Claim], fills: Collection[ContainerKey]
) -> list[Claim]:
    """Return the claims after rule 3: grants that are cooling down keep their CPUs unless others come first."""
    kept = {claim.key: _kept(world, state, claim) for claim in claims}
    needs = [claim if claim.key in fills else _at_least(claim, kept[claim.key]) for claim in claims]
    if not room.holds(needs):
        # A floor needs CPUs: all grants give way.
        return [replace(claim, highest=kept[claim.key]) for claim in claims]
    # A `fill` gives way to the fair size of all others.
    plain = fair(room, needs)
    wanted = {claim.key: kept[claim.key] if claim.key in fills else plain[claim.key] for claim in claims}
    calm = [_at_least(claim, wanted[claim.key]) for claim in claims]
    if room.holds(calm):
        return calm
    return [
        replace(claim, lowest=claim.lowest if claim.key in fills else wanted[claim.key], highest=wanted[claim.key])
        for claim in claims
    ]


def _at_least(claim: Claim, size: int) -> Claim:
    return replace(claim, lowest=size, highest=max(claim.highest, size))


def _kept(world: World, state: State, claim: Claim) -> int:
    """Return the least size that a claim keeps: its present size if it is cooling down and not `manual`."""
    grant = state.assignments.get(claim.key)
    if grant is None or grant.cooling is None or grant.demand.scale is Scale.MANUAL:
        return claim.lowest
    return max(claim.lowest, min(len(grant.cpus), most_of(world, grant)))


def _without_small_changes(
    world: World, state: State, room: Capacity, claims: Sequence[Claim]
) -> dict[ContainerKey, int]:
    plain = found = fair(room, claims)
    above = above_their_ceilings(world, state)
    pinned: set[ContainerKey] = set()
    while True:
        small = {
            key
            for key, each in state.assignments.items()
            if 0 < len(each.cpus) - found[key] < world.settings.min_change and each.demand.scale is not Scale.MANUAL
        } - (pinned | above)
        if not small:
            return found
        pinned |= small
        claims = [_pinned(state, claim) if claim.key in small else claim for claim in claims]
        if not room.holds(claims):
            # Which of them would be kept is chance: a floor takes from the richest.
            return plain
        found = fair(room, claims)


def above_their_ceilings(world: World, state: State) -> set[ContainerKey]:
    """Return the grants whose ceiling was lowered, by a rule or an option: what is above it goes, however little."""
    return {key for key, each in state.assignments.items() if len(each.cpus) > most_of(world, each)}


def _pinned(state: State, claim: Claim) -> Claim:
    # It may grow: what no other claim can use is not to stay idle.
    return _at_least(claim, len(state.assignments[claim.key].cpus))
