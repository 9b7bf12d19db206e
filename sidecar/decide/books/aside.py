"""Step aside: a grant moves off CPUs to which another container was pinned by hand, where other CPUs are free.

A container that is pinned by hand is never moved, so one of the two would be disturbed for good. As with a reservation
that grows, the grant moves, under its own rules: number, NUMA rule, whole cores. Where no lawful CPUs are free it
stays, and both share what they share: a clash, which people are told of.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sidecar.decide.books.grants import ask_of, bounds, may_hold, options_of
from sidecar.decide.books.room import room_in
from sidecar.decide.books.takes import changed, exchanged
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.placement.choose import choose
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from state.cause import PinnedByHand
from state.cpuset import CPUSet
from state.model import Assignment, Refused, State
from state.refusal import Refusal, RefusalCode, Taken

replace = msgspec.structs.replace


class Clash(msgspec.Struct, frozen=True):
    """A container with a grant, and another that is pinned by hand and may run on these of its CPUs."""

    owner: Assignment
    pinned: Container
    cpus: CPUSet


def clashes(world: World) -> tuple[Clash, ...]:
    """Return each clash, in the order of the grants, then by the name of the pinned container."""
    pinned = sorted(_pinned(world), key=lambda each: (each.view.name, each.view.id))
    owners = sorted(world.state.assignments.values(), key=lambda each: each.since) if pinned else ()
    found = ((owner, each, owner.cpus.mask & world.may_run(each)) for owner in owners for each in pinned)
    return tuple(Clash(owner, each, CPUSet.from_mask(mask)) for owner, each, mask in found if mask)


def without_clashes(world: World) -> State:
    """Return the State without the clashes that can be ended; the same State if there are none.

    1. A grant moves if other lawful CPUs are free.
    2. If none are, it stays where it was before the other. What a grant gained at the start of the sidecar, unaware of
       the other, it may not have: it ends.
    """
    state = world.state
    for clash in clashes(world):
        grant = state.assignments.get(clash.owner.container)
        if grant is None or grant.cpus.isdisjoint(clash.cpus):
            continue
        # 1. Elsewhere.
        if (cpus := _elsewhere(world, state, grant)) is not None:
            state = _moved(world, state, grant, cpus, PinnedByHand(clash.pinned.view.name, clash.cpus))
        # 2. Nowhere.
        elif taken := grant.cpus & clash.cpus & world.unlooked:
            state = state.refused(_taken(grant, taken))
    return state


def _taken(grant: Assignment, cpus: CPUSet) -> Refused:
    refusal = Refusal(RefusalCode.TAKEN_BY_STRANGER, Taken(cpus))
    return Refused(container=grant.container, name=grant.name, refusal=refusal, demand=grant.demand)


def _pinned(world: World) -> Iterator[Container]:
    """Yield the containers that are pinned by hand and run, or are about to."""
    for each in world.containers.values():
        if each.wish.standing is Standing.STRANGER and world.may_run(each):
            yield each


def _elsewhere(world: World, state: State, grant: Assignment) -> CPUSet | None:
    """Return the CPUs to which a grant moves; None if there are no lawful ones.

    1. As many as it has, or else as many as it can have down to its fewest.
    2. Those that it keeps and the nearest free ones; if that is against its rules, any free ones.
    """
    topology, demand = world.topology, grant.demand
    rest = state.released(grant.container)
    available = rest.assignable - world.strangers - state.leaving
    kept = grant.cpus & available
    # 1. How many.
    for count in range(len(grant.cpus), bounds(world, demand)[0] - 1, -1):
        # 2. Which.
        tiers, missing = around(topology, available - kept, kept), max(0, count - len(kept))
        near = kept | beside(topology, tiers, missing, options_of(world, demand))
        anew = choose(
            topology,
            available,
            ask_of(world, demand, count),
            accept=room_in(world, rest).objection,
        )
        for cpus in (near, anew):
            if isinstance(cpus, CPUSet) and len(cpus) == count and may_hold(world, rest, demand, cpus):
                return cpus
    return None


def _moved(world: World, state: State, grant: Assignment, cpus: CPUSet, cause: PinnedByHand) -> State:
    """Return the State after the move: under `dynamic` with notice, otherwise at once, as for a reservation."""
    key, gained, lost = grant.container, cpus - grant.cpus, grant.cpus - cpus
    if world.settings.policy is PolicyName.DYNAMIC:
        original = grant.original & cpus
        if (missing := grant.demand.floor - len(original)) > 0:
            original |= packed(world.topology, cpus - original, missing) or cpus - original
        return exchanged(state, key, cpus, original, cause)
    made = changed(state, key, cause, gained=gained, lost=lost)
    original = grant.original & cpus or cpus
    now = replace(made.assignments[key], original=original, layers=(), leaving=None, cooling=None)
    return made.holding(now)
