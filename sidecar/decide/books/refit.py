"""Refit: adapt a State to a machine or to settings that it was not made for, by the policy's own rules.

Every change to a grant is reported, and no file has to be deleted by hand.

1. The reservation follows the settings, and takes precedence over grants.
2. A grant keeps the CPUs that are still lawful. Under `static` it gives up those above its number.
3. Floors come first, in the order of the grants. A grant below its least size is completed (`replacing`) from free
   CPUs; then from what others have above their fair size; then from what they have above their floors; then from the
   newest grants.
4. A grant ends only if its least size cannot be completed, or if the shared pool has no room for it beside the least
   sizes of the older ones. A container that ends so asks again as soon as there is room (`grants.askers`).
5. If CPUs came back, a grant that breaks its rules (half cores, too many nodes) lies by them again if free CPUs
   allow it.
6. If the shared pool is short, grants keep no more above their least sizes than is fair.
7. Under `dynamic`, CPUs that a grant loses leave it with notice, as in any take, unless they are offline or reserved
   now. The policy's next decision does all the rest: growing, and CPUs that become spare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sidecar.decide.books.gains_and_losses import given_up
from sidecar.decide.books.grants import bounds
from sidecar.decide.books.replacing import is_by_its_rules, replaced
from sidecar.decide.books.room import room_in
from sidecar.decide.books.sizes import sizes, unit_of
from sidecar.decide.books.takes import changed
from sidecar.decide.placement.options import FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.reserve import reserve
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.world import Note, World
from state.cause import ByItsRules, Cause, FewerToShare, Gone
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey
from state.model import KEPT_MOVES, Assignment, Demand, Move, Refused, State
from state.refusal import Refusal, RefusalCode
from state.topology import Topology

replace = msgspec.structs.replace

Holdings = Mapping[ContainerKey, CPUSet]
"""What each grant that has not ended holds."""


def refit(world: World) -> tuple[State, tuple[Note, ...]]:
    """Return the State of this world as it is lawful on its machine under its settings, and a note of each grant that
    changed. Under the policy `none` only the policy's name and the online CPUs are updated.
    """
    state, topology, settings = world.state, world.topology, world.settings
    if settings.policy is PolicyName.NONE:
        return replace(state, policy=settings.policy.value, online=topology.online), ()
    # 1. The reservation.
    bare = _without_grants(world)
    # 2. What each keeps.
    holdings: Holdings = {grant.container: _kept(world, bare, grant) for grant in _in_order(state)}
    # 3. and 4. Floors.
    holdings, refused = _with_floors(world, bare, holdings)
    if state.online and topology.online - state.online:
        # 5. By their rules again.
        holdings = _by_their_rules(world, bare, holdings)
    # 6. The pool.
    holdings = _within_the_room(world, bare, holdings)
    # 7. With notice.
    fitted = bare
    for grant in _in_order(state):
        key = grant.container
        if key in holdings:
            fitted = _recorded(world, fitted.holding(_lying_on(world, grant, holdings[key])), grant)
        else:
            fitted = fitted.refused(refused[key])
    return fitted, tuple(_notes(state, fitted))


def least_of(world: World, demand: Demand) -> int:
    """Return the fewest CPUs that a grant of this demand may hold, in whole units."""
    least, _ = bounds(world, demand)
    return min(least + -least % unit_of(world, demand), max(least, demand.cpus))


def _in_order(state: State) -> list[Assignment]:
    return sorted(state.assignments.values(), key=lambda each: each.since)


def _without_grants(world: World) -> State:
    """Return the State on this machine under these settings, without any grant."""
    topology, settings = world.topology, world.settings
    fitted = replace(world.state, policy=settings.policy.value, online=topology.online)
    return replace(
        fitted,
        reserved=reserve(topology, settings, fitted),
        strict=STRICT_CPU_RESERVATION in settings.options,
        isolated=EMPTY if settings.isolated is IsolatedRule.IGNORE else topology.isolated,
        assignments={},
    )


def _kept(world: World, bare: State, grant: Assignment) -> CPUSet:
    """Return the CPUs of a grant that it may keep, and no more than it may have."""
    kept, (_, most) = grant.cpus & bare.assignable, bounds(world, grant.demand)
    return _shrunk(world, grant, kept, most) if len(kept) > most else kept


def _shrunk(world: World, grant: Assignment, held: CPUSet, count: int) -> CPUSet:
    """Return `count` of the CPUs that a grant holds: it gives up the newest first, and its original set last."""
    left = held - given_up(world.topology, _lying_on(world, grant, held), len(held) - count)
    return left if len(left) <= count else packed(world.topology, left, count) or left


def _with_floors(world: World, bare: State, holdings: Holdings) -> tuple[Holdings, Mapping[ContainerKey, Refused]]:
    """Return what each grant holds after rules 3 and 4, and the refusals of those that ended."""
    holdings, refused, older = {**holdings}, dict[ContainerKey, Refused](), bare
    for grant in _in_order(world.state):
        key, least = grant.container, least_of(world, grant.demand)
        found: CPUSet | Refusal = holdings[key]
        if len(holdings[key]) < least:
            sources = _sources(world, bare, holdings, grant)
            found = replaced(world, older, grant.demand, holdings[key], sources, least)
        if isinstance(found, CPUSet):
            floor = _least_part(world, grant, found)
            if objection := room_in(world, older).objection(floor):
                found = objection
            else:
                holdings = {other: held - found for other, held in holdings.items()} | {key: found}
                older = older.holding(replace(grant, cpus=floor))
        if isinstance(found, Refusal):
            del holdings[key]
            refused[key] = _refusal_of(grant, found)
    return holdings, refused


def _sources(world: World, bare: State, holdings: Holdings, grant: Assignment) -> list[CPUSet]:
    """Return from where a grant below its least size is completed, in turn, as disjoint sets."""
    others = [each for each in _in_order(world.state) if each is not grant and each.container in holdings]
    sources = [bare.assignable - world.strangers - union(holdings.values())]
    floors = {each.container: _least_part(world, each, holdings[each.container]) for each in others}
    surplus = {key: holdings[key] - floor for key, floor in floors.items()}
    if any(surplus.values()):
        fair = _fair(world, bare, holdings)
        above_fair = union(
            held - _shrunk(world, each, held, fair[each.container])
            for each in others
            if len(held := holdings[each.container]) > fair[each.container]
        )
        spare = union(surplus.values())
        sources += [spare & above_fair, spare - above_fair]
    newest_first = reversed([each for each in others if each.since > grant.since])
    return [*sources, *(floors[each.container] for each in newest_first)]


def _fair(world: World, bare: State, holdings: Holdings) -> dict[ContainerKey, int]:
    """Return the fair size of each grant, at least its least size."""
    return sizes(world, _all_lying(world, bare, holdings), {})


def _all_lying(world: World, bare: State, holdings: Holdings) -> State:
    grants = {
        each.container: _lying_on(world, each, holdings[each.container])
        for each in _in_order(world.state)
        if each.container in holdings
    }
    return replace(bare, assignments=grants)


def _by_their_rules(world: World, bare: State, holdings: Holdings) -> Holdings:
    """Return what each grant holds after rule 5."""
    for grant in _in_order(world.state):
        key, demand = grant.container, grant.demand
        if key not in holdings or is_by_its_rules(world, demand, held := holdings[key]):
            continue
        without = _all_lying(world, bare, {other: cpus for other, cpus in holdings.items() if other != key})
        free = without.assignable - world.strangers - held
        # Made larger, up to its number, it need not give up what it has.
        most = bounds(world, demand)[1]
        for count in dict.fromkeys((min(most, len(world.topology.whole_cores(held))), len(held))):
            found = replaced(world, without, demand, held, [free], count) if count >= len(held) else None
            if isinstance(found, CPUSet):
                holdings = {**holdings, key: found}
                break
    return holdings


def _within_the_room(world: World, bare: State, holdings: Holdings) -> Holdings:
    """Return what each grant holds after rule 6."""
    if room_in(world, bare).objection(union(holdings.values())) is None:
        return holdings
    fair = _fair(world, bare, holdings)
    floors = {
        each.container: _least_part(world, each, holdings[each.container])
        for each in _in_order(world.state)
        if each.container in holdings
    }
    found = dict(floors)
    for grant in _in_order(world.state):
        key = grant.container
        if key not in holdings:
            continue
        room = room_in(world, _all_lying(world, bare, found))
        aim = _shrunk(world, grant, holdings[key], max(fair[key], len(floors[key])))
        if room.objection(aim - found[key]) is not None:
            # A whole core stays in the pool: another one than its own newest.
            spare = replace(room, givable=aim - found[key]).spare(by_cores=FULL_PCPUS_ONLY in _options(world, grant))
            aim = found[key] | spare
        found[key] |= aim
    return found


def _options(world: World, grant: Assignment) -> tuple[str, ...]:
    return world.settings.options if grant.demand.options is None else grant.demand.options


def _least_part(world: World, grant: Assignment, held: CPUSet) -> CPUSet:
    """Return what a grant keeps in any case: as many of its CPUs as its least size, its original set first."""
    least = least_of(world, grant.demand)
    return _shrunk(world, grant, held, least) if len(held) > least else held


def _lying_on(world: World, grant: Assignment, cpus: CPUSet) -> Assignment:
    """Return the grant on these CPUs. Under `dynamic` its original set is as large as its floor; layers the rest."""
    if world.settings.policy is not PolicyName.DYNAMIC:
        original = grant.original & cpus or cpus
        return replace(grant, cpus=cpus, original=original, layers=(), leaving=None, cooling=None)
    original = _original(world.topology, grant, cpus)
    layers = tuple(part for layer in grant.layers if (part := (layer & cpus) - original))
    if rest := cpus - original - union(layers):
        layers = (rest, *layers)
    left = grant.leaving.within(world.topology.online - cpus) if grant.leaving else None
    return replace(grant, cpus=cpus, original=original, layers=layers, leaving=left)


def _original(topology: Topology, grant: Assignment, cpus: CPUSet) -> CPUSet:
    """Return the original set of a grant on these CPUs, as large as its floor: its remains, and the nearest CPUs."""
    original, size = grant.original & cpus, grant.demand.floor
    if len(original) > size:
        return packed(topology, original, size) or original
    return original | beside(topology, around(topology, cpus - original, original), size - len(original), ())


def _recorded(world: World, fitted: State, grant: Assignment) -> State:
    """Return the fitted State with what a grant gained and lost in its moves; and under `dynamic` with what it lost as
    leaving, except CPUs that are offline or reserved now.
    """
    key, now = grant.container, fitted.assignments[grant.container]
    lost, gained = grant.cpus - now.cpus, now.cpus - grant.cpus
    taken = (lost & fitted.online) - fitted.reserved
    cause: Cause = Gone(gone) if (gone := lost - taken) else ByItsRules()
    if not (gained or gone):
        cause = FewerToShare(name=grant.name, count=len(taken), floor=least_of(world, grant.demand))
    with_notice = taken if world.settings.policy is PolicyName.DYNAMIC else EMPTY
    if gained or lost - with_notice:
        move = Move(gained=gained, lost=lost - with_notice, cause=cause)
        now = replace(now, moves=(*now.moves, move)[-KEPT_MOVES:])
    if with_notice:
        return changed(fitted.holding(replace(now, cpus=now.cpus | taken)), key, cause, lost=taken)
    return fitted.holding(now)


def _refusal_of(grant: Assignment, refusal: Refusal) -> Refused:
    """Return the refusal of a grant that ended: what is missing for its least size, and that it had CPUs."""
    code = RefusalCode.CPUS_LOST
    if refusal.code is RefusalCode.POOL_WOULD_BE_EMPTY:
        code = refusal.code
    told = Refusal(code, with_facts(refusal, had=grant.cpus, would_fit=()).detail)
    return Refused(container=grant.container, name=grant.name, refusal=told, demand=grant.demand)


def _notes(state: State, fitted: State) -> Iterator[Note]:
    for grant in _in_order(state):
        if refused := fitted.refusals.get(grant.container):
            yield Note(name=grant.name, held=grant.cpus, refusal=refused.refusal)
        elif (cpus := fitted.assignments[grant.container].cpus) != grant.cpus:
            yield Note(name=grant.name, held=grant.cpus, holds=cpus)
