"""Refit: adapt a State to a machine or to settings that it was not made for, by the policy's own rules.

Every change to a grant is reported, and no file has to be deleted by hand.

1. The reservation follows the settings, and takes precedence over grants. CPUs that stand in for reserved ones that are
   offline are free ones, at first those to which no container is pinned by hand; then what grants have above their fair
   sizes; then above their floors; at last the least part of the newest grant. When the others are back, they are
   reserved again.
2. A grant keeps the CPUs that are still lawful. Under `static` it gives up those above its number. Under
   `full-pcpus-only` it keeps no part of a core of which the reservation takes another part.
3. Floors come first, in the order of the grants. A grant below its least size is completed (`replacing`) from free
   CPUs; then from what others have above their fair size; then from what they have above their floors.
4. A grant ends only if its least size cannot be completed, or if the shared pool has no room for it beside the least
   sizes of the older ones: if not all fit, the newest. A trial finds which end, and their CPUs are free for the others.
   No other grant gives up CPUs of its least size. But one that is itself completed elsewhere may leave what another
   lacked by its rules: then that one does not end. A container whose grant ended so asks again as soon as there is
   room (`askers`). The least part of a grant are its oldest CPUs; where these leave the pool too few, those outside
   the pool, such as isolated ones, come first.
5. If CPUs came back, a grant that breaks its rules (half cores, too many nodes) lies by them again if free CPUs
   allow it, and gives up what is above its ceiling in whole cores. It may leave its original CPUs for that only if
   offline CPUs can be the cause: a grant that must have been made under other options keeps them.
6. If the shared pool is short, grants keep no more above their least sizes than is fair.
7. Under `dynamic`, CPUs that a grant loses leave it with notice, as in any take, unless they are offline or reserved
   now. Those that it was leaving already and that are reserved now, it leaves at once. The policy's next decision does
   all the rest: growing, and CPUs that become spare.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

import msgspec

from sidecar.decide.books.grants import bounds, never, options_of, place
from sidecar.decide.books.holdings import (
    Holdings,
    above,
    fair_sizes,
    fewest_for,
    in_order,
    least_part,
    left_without,
    lying_on,
    recorded,
    shrunk,
    sources_for,
    surplus_of,
    with_holdings,
)
from sidecar.decide.books.replacing import is_by_its_rules, is_made_by_its_rules, replaced
from sidecar.decide.books.room import room_in
from sidecar.decide.placement.options import FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.reserve import counted, reserve
from sidecar.decide.placement.shortfall import with_facts
from sidecar.decide.placement.whole_cores import cores_within, is_by_cores, unit_of
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.world import Note, World
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey
from state.model import Assignment, Refused, State
from state.refusal import Asked, Refusal, RefusalCode

replace = msgspec.structs.replace

T = TypeVar("T")


def refit(world: World) -> tuple[State, tuple[Note, ...]]:
    """Return the State of this world as it is lawful on its machine under its settings, and a note of each grant that
    changed. Under the policy `none` only the policy's name and the online CPUs are updated.
    """
    state, topology, settings = world.state, world.topology, world.settings
    if settings.policy is PolicyName.NONE:
        return replace(state, policy=settings.policy.value, online=topology.online), ()
    # 1. The reservation.
    bare = _with_stand_ins(world, _without_grants(world))
    # 2. What each keeps.
    holdings: Holdings = {grant.container: _kept(world, bare, grant) for grant in in_order(state)}
    # 3. and 4. Floors.
    holdings, refused = _with_floors(world, bare, holdings)
    if state.online and topology.online - state.online:
        # 5. By their rules again.
        holdings = _by_their_rules(world, bare, holdings)
    # 6. The pool.
    holdings = _within_the_room(world, bare, holdings)
    refused = _beside_what_stays(world, bare, holdings, refused)
    # 7. With notice.
    fitted = bare
    for grant in in_order(state):
        key = grant.container
        if key in holdings:
            lies = lying_on(world, grant, holdings[key])
            fitted = fitted.holding(replace(lies, leaving=lies.leaving and lies.leaving.due_on(bare.reserved)))
        else:
            # As it held CPUs, it keeps its place in the queue.
            fitted = fitted.holding(grant).refused(refused[key])
    for grant in in_order(state):
        if grant.container in holdings:
            fitted = recorded(world, fitted, grant)
    return fitted, tuple(_notes(state, fitted))


def _without_grants(world: World) -> State:
    """Return the State on this machine under these settings, without any grant."""
    topology, settings = world.topology, world.settings
    return replace(
        world.state,
        policy=settings.policy.value,
        online=topology.online,
        counted=counted(topology, settings, world.state),
        reserved=reserve(topology, settings, world.state),
        strict=STRICT_CPU_RESERVATION in settings.options,
        isolated=EMPTY if settings.isolated is IsolatedRule.IGNORE else topology.isolated,
        assignments={},
    )


def _with_stand_ins(world: World, bare: State) -> State:
    """Return the bare State with the CPUs reserved that cost the grants least, if others must stand in for some."""
    topology, settings = world.topology, world.settings
    chosen = settings.reserved_cpus or bare.counted or EMPTY
    if chosen <= topology.online or (settings.reserved_cpus and chosen & topology.online):
        return bare
    holdings = {grant.container: (grant.cpus & topology.online) - chosen for grant in in_order(world.state)}
    floors = [least_part(world, grant, holdings[grant.container]) for grant in reversed(in_order(world.state))]
    spare = union(holdings.values()) - union(floors)
    pool = topology.online - world.state.exclusive
    free = pool - world.strangers
    # Fair sizes depend on how many CPUs are reserved, not on which.
    trial = reserve(topology, settings, world.state, (free, pool, spare, *floors))
    left = {key: cpus - trial for key, cpus in holdings.items()}
    above_fair = EMPTY
    if spare:
        fair = fair_sizes(world, replace(bare, reserved=trial), left)
        above_fair = above(world, in_order(world.state), holdings, fair)
    sources = (free, pool, spare & above_fair, spare, *floors)
    return replace(bare, reserved=reserve(topology, settings, world.state, sources))


def _kept(world: World, bare: State, grant: Assignment) -> CPUSet:
    """Return the CPUs of a grant that it may keep, and no more than it may have."""
    kept, (_, most) = grant.cpus & bare.assignable, bounds(world, grant.demand)
    by_cores = is_by_cores(options_of(world, grant.demand))
    if by_cores:
        kept -= world.topology.whole_cores(grant.cpus & bare.reserved)
    if len(kept) <= most:
        return kept
    left = shrunk(world, grant, kept, most)
    if len(left) <= most:
        return left
    return cores_within(world.topology, left, most) if by_cores else packed(world.topology, left, most) or left


def _with_floors(world: World, bare: State, kept: Holdings) -> tuple[Holdings, Mapping[ContainerKey, Refused]]:
    """Return what each grant holds after rules 3 and 4, and the refusals of those that ended."""
    unfit: dict[ContainerKey, Refused] = {}
    while True:
        # 3. What those have that end anyway is free for the others.
        _, ended = _completed(world, bare, _but(kept, unfit), is_trial=True)
        holdings, failed = _completed(world, bare, _but(kept, unfit | ended), is_trial=False)
        if not failed:
            holdings = _with_those_that_fit(world, bare, kept, holdings, unfit)
            return holdings, _but(unfit, holdings) | ended
        # 4. No grant gives way to one that its rules do not let use what is free.
        unfit |= failed


def _with_those_that_fit(
    world: World, bare: State, kept: Holdings, holdings: Holdings, unfit: Container[ContainerKey]
) -> Holdings:
    """Return what each grant holds, with those that found no CPUs by their rules, and that fit beside what the others
    hold by now (4).
    """
    for grant in in_order(world.state):
        if (key := grant.container) in unfit:
            beside = with_holdings(world, bare, holdings)
            free, least = beside.assignable - world.strangers, fewest_for(world, grant.demand)
            own = kept[key] & free
            if found := replaced(world, beside, grant.demand, own, [free - own], least):
                holdings = {**holdings, key: found}
    return holdings


def _but(each: Mapping[ContainerKey, T], others: Container[ContainerKey]) -> dict[ContainerKey, T]:
    return {key: value for key, value in each.items() if key not in others}


def _completed(
    world: World, bare: State, holdings: Holdings, *, is_trial: bool
) -> tuple[Holdings, dict[ContainerKey, Refused]]:
    """Return what each of these grants holds once it has its least size, and the refusals of those that cannot have it.
    In a trial, which shows only what ends, older grants take what they lack from the newest.
    """
    holdings, refused, older = {**holdings}, dict[ContainerKey, Refused](), bare
    order = [each for each in in_order(world.state) if each.container in holdings]
    # A grant that is to be completed has none itself.
    surplus = {each.container: surplus_of(world, each, holdings[each.container]) for each in order}
    for grant in order:
        key, least = grant.container, fewest_for(world, grant.demand)
        found: CPUSet | Refusal | None = holdings[key]
        if len(holdings[key]) < least:
            newest = _newest(world, holdings, grant) if is_trial else ()
            sources = chain(sources_for(world, bare, holdings, grant, surplus), newest)
            found = replaced(world, older, grant.demand, holdings[key], sources, least)
        if found is None:
            beside = older if is_trial else with_holdings(world, bare, _but(holdings, {key}))
            found = place(world, beside, grant.demand, least)
        if isinstance(found, CPUSet):
            floors = _floors(world, bare, {**_but(holdings, {key}), key: found}, order[: order.index(grant) + 1])
            rest = with_holdings(world, bare, {each: cpus for each, cpus in floors.items() if each != key})
            if objection := room_in(world, rest).objection(floors[key]):
                found = objection
            else:
                changed = {key: found}
                if not found <= holdings[key]:
                    changed |= {
                        other.container: left_without(world, other, held, found)
                        for other in order
                        if not (held := holdings.get(other.container, EMPTY)).isdisjoint(found) and other is not grant
                    }
                holdings |= changed
                for owner, cpus in changed.items():
                    surplus[owner] = surplus_of(world, world.state.assignments[owner], cpus)
                older = with_holdings(world, bare, floors)
        if isinstance(found, Refusal):
            del holdings[key], surplus[key]
            refused[key] = _refusal_of(grant, never(world, bare, grant.demand, least) or found)
    return holdings, refused


def _floors(world: World, bare: State, holdings: Holdings, among: Sequence[Assignment]) -> Holdings:
    """Return the least part of each of these grants that holds CPUs (4)."""
    held = [each for each in among if each.container in holdings]
    floors = {each.container: least_part(world, each, holdings[each.container]) for each in held}
    if room_in(world, bare).objection(union(floors.values())) is None:
        return floors
    outside = bare.assignable - bare.shared
    for each in held:
        cpus, least = holdings[each.container], fewest_for(world, each.demand)
        sources = (cpus & outside, cpus - outside)
        if (cpus & outside) - floors[each.container]:
            floors[each.container] = replaced(world, bare, each.demand, EMPTY, sources, least) or floors[each.container]
    return floors


def _newest(world: World, holdings: Holdings, grant: Assignment) -> Iterator[CPUSet]:
    """Yield the least parts of the grants that are newer than this one, the newest first."""
    newer = [each for each in in_order(world.state) if each.since > grant.since and each.container in holdings]
    for each in reversed(newer):
        yield least_part(world, each, holdings[each.container])


def _by_their_rules(world: World, bare: State, holdings: Holdings) -> Holdings:
    """Return what each grant holds after rule 5."""
    for grant in in_order(world.state):
        key, demand = grant.container, grant.demand
        if key not in holdings or is_by_its_rules(world, demand, held := holdings[key]):
            continue
        without = with_holdings(world, bare, {other: cpus for other, cpus in holdings.items() if other != key})
        free = without.assignable - world.strangers - held
        most, may_leave = bounds(world, demand)[1], is_made_by_its_rules(world, demand, held)
        # Made larger, up to its number, it need not give up what it has.
        larger = (min(most, len(world.topology.whole_cores(held))), len(held))
        tries = [(held, count) for count in larger if count >= len(held)]
        # Back at its number it may lie on as many nodes as it has, and then it need not move.
        own = union(node.cpus for node in world.topology.nodes if not node.cpus.isdisjoint(held))
        grown = range(len(held) + 1, min(most, demand.cpus) + 1)
        full = (replaced(world, without, demand, held, [free], count) for count in grown)
        if found := next((cpus for cpus in full if cpus and held <= cpus <= own), None):
            holdings = {**holdings, key: found}
            continue
        # What is more than it may hold in whole cores was granted while a part of one was offline.
        fitting = most - most % unit_of(world.topology, options_of(world, demand), held)
        if fewest_for(world, demand) <= fitting < len(held):
            tries.append((shrunk(world, grant, held, fitting), fitting))
        for kept, count in tries:
            found = replaced(world, without, demand, kept, [free], count)
            if found and (may_leave or grant.original & held <= found):
                holdings = {**holdings, key: found}
                break
    return holdings


def _within_the_room(world: World, bare: State, holdings: Holdings) -> Holdings:
    """Return what each grant holds after rule 6."""
    if room_in(world, bare).objection(union(holdings.values())) is None:
        return holdings
    fair = fair_sizes(world, bare, holdings)
    floors = _floors(world, bare, holdings, in_order(world.state))
    found = dict(floors)
    for grant in in_order(world.state):
        key = grant.container
        if key not in holdings:
            continue
        room = room_in(world, with_holdings(world, bare, found))
        aim = shrunk(world, grant, holdings[key], max(fair[key], len(floors[key])))
        if room.objection(aim - found[key]) is not None:
            # A whole core stays in the pool: another one than its own newest.
            by_cores = FULL_PCPUS_ONLY in options_of(world, grant.demand)
            aim = replace(room, givable=aim - found[key]).spare(by_cores=by_cores)
        found[key] |= aim
    return found


def _refusal_of(grant: Assignment, refusal: Refusal) -> Refused:
    """Return the refusal of a grant that ended: what is missing for its least size, and that it had CPUs."""
    told = refusal.after(Refusal(RefusalCode.CPUS_LOST, with_facts(refusal, had=grant.cpus).detail))
    return Refused(container=grant.container, name=grant.name, refusal=told, demand=grant.demand)


def _beside_what_stays(
    world: World, bare: State, holdings: Holdings, refused: Mapping[ContainerKey, Refused]
) -> dict[ContainerKey, Refused]:
    """Return the refusals of the grants that ended, with what each lacks beside the grants that stay. What it lacked in
    the trial was counted beside others, or beside none of the newer ones.
    """
    stay, told = with_holdings(world, bare, holdings), dict[ContainerKey, Refused]()
    for key, each in refused.items():
        grant = world.state.assignments[key]
        found = place(world, stay, grant.demand, fewest_for(world, grant.demand))
        is_final = isinstance(each.refusal.detail, Asked) and each.refusal.detail.is_of_the_machine
        told[key] = each if is_final or isinstance(found, CPUSet) else _refusal_of(grant, found)
    return told


def _notes(state: State, fitted: State) -> Iterator[Note]:
    for grant in in_order(state):
        if refused := fitted.refusals.get(grant.container):
            yield Note(name=grant.name, held=grant.cpus, refusal=refused.refusal)
        elif (cpus := fitted.assignments[grant.container].cpus) != grant.cpus:
            yield Note(name=grant.name, held=grant.cpus, holds=cpus)
