"""What grants hold while they are adapted to a change that they did not ask for, and from where they are completed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sidecar.decide.books.gains_and_losses import cut_off, given_up
from sidecar.decide.books.grants import options_of
from sidecar.decide.books.once import once
from sidecar.decide.books.size_causes import fewer_to_share, given_to
from sidecar.decide.books.sizes import Claims, least_for, sizes
from sidecar.decide.books.takes import taken_for
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.placement.whole_cores import is_by_cores
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.cause import BecameReserved, ByItsRules, Cause, Completed, NumberOnly, Pinned, WentOffline
from state.cpuset import EMPTY, CPUSet, union
from state.demand import Demand
from state.key import ContainerKey
from state.model import KEPT_MOVES, Assignment, Move, State
from state.topology import Topology

Holdings = Mapping[ContainerKey, CPUSet]
"""What each grant holds, by container; a grant that ended is not in it."""


def fewest_for(world: World, demand: Demand) -> int:
    """Return the fewest CPUs that a grant of this demand may hold: its floor in whole units, or under `static` its
    number.
    """
    is_dynamic = world.settings.policy is PolicyName.DYNAMIC
    return least_for(world, demand) if is_dynamic else demand.cpus


def in_order(state: State) -> list[Assignment]:
    """Return the grants in the order in which they were made."""
    return list(state.by_age)


@once
def shrunk(world: World, grant: Assignment, held: CPUSet, count: int) -> CPUSet:
    """Return `count` of the CPUs that a grant holds, or more if it may not give up so many: it gives up the newest
    first, whole cores if it requires these, and nothing of its original set.
    """
    is_whole = is_by_cores(options_of(world, grant.demand))
    # By its layers under `static` as well: they are those of a grant that was made under `dynamic`.
    lying = layered(world.topology, grant, held)
    return held - given_up(world.topology, lying, len(held) - count, is_whole=is_whole)


def left_without(world: World, grant: Assignment, held: CPUSet, taken: CPUSet) -> CPUSet:
    """Return what a grant holds after others took these CPUs: under full-pcpus-only, no other part of their cores."""
    if held.isdisjoint(taken):
        return held
    return held - taken - cut_off(world, replace(grant, cpus=held), held & taken)


def surplus_of(world: World, grant: Assignment, held: CPUSet) -> CPUSet:
    """Return what a grant holds above its least size."""
    return held - least_part(world, grant, held)


def sources_for(
    world: World, bare: State, holdings: Holdings, grant: Assignment, surplus: Holdings | None = None
) -> Iterator[CPUSet]:
    """Yield the CPUs from which a grant is completed, in turn, as disjoint sets: free ones; those that others have
    above their fair size; the others that they have above their least sizes, which are the `surplus` if that is known.
    """
    yield bare.assignable - union(holdings.values()) - world.strangers
    others = [each for each in in_order(world.state) if each is not grant and each.container in holdings]
    surplus = surplus or {each.container: surplus_of(world, each, holdings[each.container]) for each in others}
    if any(surplus.values()):
        above_fair = above(world, others, holdings, fair_sizes(world, bare, holdings))
        spare = union(surplus.values()) - world.strangers
        yield spare & above_fair
        yield spare - above_fair


def above(
    world: World, grants: Iterable[Assignment], holdings: Holdings, allowed: Mapping[ContainerKey, int]
) -> CPUSet:
    """Return what these grants hold above the sizes that they are allowed."""
    return union(
        held - shrunk(world, each, held, allowed[each.container])
        for each in grants
        if len(held := holdings[each.container]) > allowed[each.container]
    )


def fair_sizes(world: World, bare: State, holdings: Holdings) -> dict[ContainerKey, int]:
    """Return the fair size of each grant, at least its least size."""
    return sizes(_claims(world), with_holdings(world, bare, holdings), {})


def _claims(world: World) -> Claims:
    """Return what the grants of this world claim, which is worked out once."""
    known, _ = world.derived.setdefault(Claims, (Claims(world), None))
    assert isinstance(known, Claims)
    return known


def with_holdings(world: World, bare: State, holdings: Holdings) -> State:
    """Return the bare State with each grant on what it holds."""
    grants = {
        each.container: lying_on(world, each, holdings[each.container])
        for each in in_order(world.state)
        if each.container in holdings
    }
    return replace(bare, assignments=grants)


@once
def least_part(world: World, grant: Assignment, held: CPUSet) -> CPUSet:
    """Return what a grant keeps in any case: as many of its CPUs as its least size, its original set first."""
    if len(held) <= grant.demand.floor:
        return held
    least = fewest_for(world, grant.demand)
    return shrunk(world, grant, held, least) if len(held) > least else held


@once
def lying_on(world: World, grant: Assignment, cpus: CPUSet) -> Assignment:
    """Return the grant on these CPUs. Under `dynamic` its original set is as large as its floor; layers the rest."""
    if world.settings.policy is not PolicyName.DYNAMIC:
        original = grant.original & cpus or cpus
        return replace(grant, cpus=cpus, original=original, layers=(), leaving=None, cooling=None)
    left = grant.leaving.within(world.topology.online - cpus) if grant.leaving else None
    return replace(layered(world.topology, grant, cpus), leaving=left)


def layered(topology: Topology, grant: Assignment, cpus: CPUSet) -> Assignment:
    """Return the grant on these CPUs: its original set as large as its floor, and the rest in its layers."""
    original = _original(topology, grant, cpus)
    layers = tuple(part for layer in grant.layers if (part := (layer & cpus) - original))
    if rest := cpus - original - union(layers):
        layers = (rest, *layers)
    return replace(grant, cpus=cpus, original=original, layers=layers)


def _original(topology: Topology, grant: Assignment, cpus: CPUSet) -> CPUSet:
    """Return the original set of a grant on these CPUs, as large as its floor: its remains, and the nearest CPUs."""
    original, size = grant.original & cpus, grant.demand.floor
    if len(original) >= size:
        return original if len(original) == size else packed(topology, original, size) or original
    return original | beside(topology, around(topology, cpus - original, original), size - len(original), ())


def recorded(
    world: World, fitted: State, grant: Assignment, cause: Cause | None = None, *, pinned: CPUSet = EMPTY
) -> State:
    """Return the fitted State with what a grant gained and lost in its moves, each CPU for its own reason: that it went
    offline, became reserved, or is one of those `pinned` by hand; or else this cause, or one that the CPUs show. Under
    `dynamic`, what it lost is leaving, except CPUs that are offline or reserved now.
    """
    key, now = grant.container, fitted.assignments[grant.container]
    lost, gained = grant.cpus - now.cpus, now.cpus - grant.cpus
    offline, reserved = lost - fitted.online, lost & fitted.online & fitted.reserved
    gone: list[tuple[CPUSet, Cause]] = [(reserved, BecameReserved(reserved)), (offline, WentOffline(offline))]
    gone = [(cpus, why) for cpus, why in gone if cpus]
    taken = list(_taken(world, fitted, grant, lost - offline - reserved, cause, pinned))
    if not gone and not taken and not gained:
        return fitted.holding(now)
    is_dynamic = world.settings.policy is PolicyName.DYNAMIC
    at_once, with_notice = (gone, taken) if is_dynamic else ([*taken, *gone], [])
    why_gained = cause or (gone[-1][1] if gone else Pinned(lost & pinned) if lost & pinned else None)
    moves = list(_moves(at_once, gained, why_gained or _why_gained(world, grant, now)))
    fitted = fitted.holding(replace(now, moves=(*now.moves, *moves)[-KEPT_MOVES:]))
    if not with_notice:
        return fitted
    left = union(cpus for cpus, _ in with_notice)
    return taken_for(fitted.holding(replace(fitted.assignments[key], cpus=now.cpus | left)), key, with_notice)


def _moves(parts: Iterable[tuple[CPUSet, Cause]], gained: CPUSet, cause: Cause) -> Iterator[Move]:
    """Yield what was lost at once, each part with its reason, and what was gained with the part of the same reason."""
    for lost, why in parts:
        is_exchange = bool(gained) and why == cause
        yield Move(gained=gained if is_exchange else EMPTY, lost=lost, cause=why)
        gained = EMPTY if is_exchange else gained
    if gained:
        yield Move(gained=gained, cause=cause)


def _why_gained(world: World, grant: Assignment, now: Assignment) -> Cause:
    """Return why a grant gained CPUs without having lost any to the machine: it was too small, or broke its rules."""
    least = fewest_for(world, grant.demand)
    return Completed(least) if len(grant.cpus) < least <= len(now.cpus) else ByItsRules()


def _taken(
    world: World, fitted: State, grant: Assignment, taken: CPUSet, cause: Cause | None, pinned: CPUSet
) -> Iterator[tuple[CPUSet, Cause]]:
    """Yield why a grant lost CPUs that are online and not reserved, in disjoint parts.

    1. A container is pinned there by hand. What else it left for that, it left for its rules.
    2. It was placed elsewhere, or it gave up the rest of a core that became reserved in part: for its rules.
    3. Under `static` it has its number, and no more.
    4. Others have them, with the rest of their cores; or no container has, because fewer can be shared out.
    """
    now = fitted.assignments[grant.container]
    if cause is not None and taken:
        yield taken, cause
        return
    # 1. Pinned: what it did for its rules comes before the reason for that.
    hit, rest = taken & pinned, taken - pinned
    # 2. By its rules.
    by_rules = rest if now.cpus - grant.cpus or hit else EMPTY
    is_by_whole_cores = is_by_cores(options_of(world, grant.demand))
    if is_by_whole_cores:
        by_rules |= rest & world.topology.whole_cores(grant.cpus & fitted.reserved)
    if by_rules:
        yield by_rules, ByItsRules()
    if hit:
        yield hit, Pinned(hit)
    rest -= by_rules
    # 3. The number.
    if rest and world.settings.policy is not PolicyName.DYNAMIC:
        yield rest, NumberOnly(grant.demand.cpus)
        return
    # 4. Others.
    takers = [each for each in in_order(fitted) if each is not now and each.cpus & rest]
    given = rest & union(each.cpus for each in takers)
    if is_by_whole_cores:
        given = rest & world.topology.whole_cores(given)
    if given:
        before = replace(grant, cpus=now.cpus | rest)
        yield given, given_to(world, before, len(given), [each.name for each in takers])
    if left := rest - given:
        yield left, fewer_to_share(world, replace(grant, cpus=now.cpus | left), len(left))
