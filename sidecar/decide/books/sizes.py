"""How many CPUs each exclusive container should have: floors, ceilings, wishes, and cooling down.

1. The CPUs to share out are the room: all except the reserved CPUs, those of containers pinned by hand, and those that
   the shared pool must keep.
2. Each container claims from its floor up to its wish: its ceiling (`fill`), what its load calls for (`load`), or the
   ordered size (`manual`). An idle container does not grow.
3. A container that is cooling down keeps all its CPUs, with these exceptions:
   - a `fill` grew by spare CPUs: it keeps them against other `fill` containers, but the floors, and the fair sizes of
     `load` and `manual` containers, come first;
   - a `load` keeps them against its own smaller wish and all others, but not against a floor.
4. A change smaller than the least change is not made, unless a floor needs it.

Sizes are in units of each container: whole cores if its options require them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sidecar.decide.books.fair import Claim, fair
from sidecar.decide.books.grants import options_of
from sidecar.decide.books.load_wish import wished
from sidecar.decide.books.room import room_in
from sidecar.decide.placement.options import FULL_PCPUS_ONLY
from sidecar.decide.world import World, replace
from state.key import ContainerKey
from state.model import Assignment, Demand, Scale, State


def sizes(
    world: World, state: State, caps: Mapping[ContainerKey, int], arrival: Demand | None = None
) -> dict[ContainerKey, int]:
    """Return the size that each grant should have, by container.

    `caps` are sizes above which some containers cannot be served. `arrival` is a demand to be granted as well: it
    claims from its floor up to the number that it asks for.
    """
    room = room_in(world, state).most()
    grants = list(state.assignments.values())
    claims = [_claim(world, each, caps.get(each.container)) for each in grants]
    fills = {each.container for each in grants if each.demand.scale is Scale.FILL}
    if arrival:
        claims.append(_first_claim(world, state, arrival))
    # 3. Cooling down.
    if any(each.cooling is not None for each in grants):
        claims = _calmed(state, room, claims, fills)
    # 4. No small change.
    return _without_small_changes(world, state, room, claims)


def unit_of(world: World, demand: Demand) -> int:
    """Return the step in CPUs by which the size of a grant of this demand changes."""
    return world.topology.cpus_per_core if FULL_PCPUS_ONLY in options_of(world, demand) else 1


def wish_for(world: World, assignment: Assignment) -> int:
    """Return how many CPUs a grant wants, between its floor and its ceiling, regardless of other grants."""
    demand = assignment.demand
    match demand.scale:
        case Scale.FILL:
            return demand.ceiling
        case Scale.LOAD:
            wish = wished(assignment, world.loads.get(assignment.container), world.settings.band)
            # Rounded down, one core that is not enough would never become two.
            return min(wish + -wish % unit_of(world, demand), demand.ceiling)
        case Scale.MANUAL:
            return demand.cpus if assignment.ordered is None else assignment.ordered


def _claim(world: World, assignment: Assignment, cap: int | None) -> Claim:
    # 2. From the floor up to its wish.
    demand, now = assignment.demand, len(assignment.cpus)
    container = world.containers.get(assignment.container)
    wish = wish_for(world, assignment)
    highest = min(wish, now) if container is None or container.is_idle else wish
    claim = _in_units(world, demand, demand.floor, highest, assignment.since, most=demand.ceiling)
    return claim if cap is None else replace(claim, lowest=min(claim.lowest, cap), highest=min(claim.highest, cap))


def _first_claim(world: World, state: State, demand: Demand) -> Claim:
    return _in_units(world, demand, demand.floor, demand.cpus, state.grants, most=demand.cpus)


def _in_units(world: World, demand: Demand, lowest: int, highest: int, since: int, *, most: int) -> Claim:
    unit = unit_of(world, demand)
    # Round up to whole units, but not above `most`: such a claim cannot be served in whole units.
    lowest = min(lowest + -lowest % unit, most)
    return Claim(
        key=demand.container,
        floor=demand.floor,
        lowest=lowest,
        highest=max(lowest, highest - highest % unit),
        weight=demand.weight,
        unit=unit,
        since=since,
        name=demand.name,
    )


def _calmed(state: State, room: int, claims: Sequence[Claim], fills: Collection[ContainerKey]) -> list[Claim]:
    """Return the claims after rule 3: grants that are cooling down keep their CPUs unless others come first."""
    kept = {claim.key: _kept(state, claim) for claim in claims}
    needs = [claim if claim.key in fills else _at_least(claim, kept[claim.key]) for claim in claims]
    if sum(claim.lowest for claim in needs) > room:
        # A floor needs CPUs: all grants give way.
        return [replace(claim, highest=kept[claim.key]) for claim in claims]
    # A `fill` gives way to the fair size of all others.
    plain = fair(room, needs)
    wanted = {claim.key: kept[claim.key] if claim.key in fills else plain[claim.key] for claim in claims}
    if sum(wanted.values()) <= room:
        return [_at_least(claim, wanted[claim.key]) for claim in claims]
    return [
        replace(claim, lowest=claim.lowest if claim.key in fills else wanted[claim.key], highest=wanted[claim.key])
        for claim in claims
    ]


def _at_least(claim: Claim, size: int) -> Claim:
    return replace(claim, lowest=size, highest=max(claim.highest, size))


def _kept(state: State, claim: Claim) -> int:
    """Return the least size that a claim keeps: its present size if it is cooling down and not `manual`."""
    grant = state.assignments.get(claim.key)
    if grant is None or grant.cooling is None or grant.demand.scale is Scale.MANUAL:
        return claim.lowest
    return max(claim.lowest, min(len(grant.cpus), grant.demand.ceiling))


def _without_small_changes(world: World, state: State, room: int, claims: Sequence[Claim]) -> dict[ContainerKey, int]:
    found = fair(room, claims)
    pinned: set[ContainerKey] = set()
    while True:
        small = {
            key
            for key, each in state.assignments.items()
            if 0 < abs(found[key] - len(each.cpus)) < world.settings.min_change
            and each.demand.scale is not Scale.MANUAL
        } - pinned
        if not small:
            return found
        pinned |= small
        claims = [_pinned(state, claim) if claim.key in small else claim for claim in claims]
        if sum(claim.lowest for claim in claims) > room:
            return found
        found = fair(room, claims)


def _pinned(state: State, claim: Claim) -> Claim:
    now = len(state.assignments[claim.key].cpus)
    return replace(claim, lowest=now, highest=now)
