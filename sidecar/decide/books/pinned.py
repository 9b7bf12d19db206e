"""Grants on CPUs to which a container was pinned by hand: the owner moves, because the other container never does.

1. It keeps its other CPUs, and under `dynamic` gives up what it has above its floor there.
2. Below its least size it is completed as after a CPU went offline, but ends no other grant.
3. Without other CPUs it gives up only what it gained there, and stays on the rest: it shares that, and is not alone.
"""

from __future__ import annotations

from sidecar.decide.books.holdings import (
    fewest_for,
    in_order,
    least_part,
    left_without,
    lying_on,
    recorded,
    sources_for,
    with_holdings,
)
from sidecar.decide.books.replacing import is_by_its_rules, replaced
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.world import World, replace
from state.cause import Pinned
from state.cpuset import EMPTY, CPUSet, union
from state.model import Assignment, State


def off_the_pinned(world: World, state: State) -> State:
    """Return the State in which grants left the CPUs of containers pinned by hand, as far as there are others."""
    claimed = claimed_by_pins(world)
    if claimed.isdisjoint(state.exclusive):
        return state
    for grant in in_order(state):
        now = state.assignments[grant.container]
        if world.is_absent(grant.container):
            # It could not be ordered off.
            continue
        if (pinned := now.cpus & claimed) and (found := _elsewhere(world, state, now, claimed)) is not None:
            state = _exchanged(world, state, now, found, pinned)
    return state


def claimed_by_pins(world: World) -> CPUSet:
    """Return the CPUs to which containers are pinned by hand, and where they may run, or to which they go back. Members
    of the shared group do not count: they run only where the group does.
    """
    return union(
        world.home_of(each) if world.is_displaced(each) else _claimed(world, each)
        for each in world.containers.values()
        if each.wish.standing is Standing.STRANGER and not each.view.in_shared_group and world.holds_its_pin(each)
    )


def _claimed(world: World, container: Container) -> CPUSet:
    """Return where a container pinned by hand may run of its pin. If it runs elsewhere, although some of that is
    online, it was put there, and not by its engine, as by a hand that was lost: it stays there until its next start.
    """
    pin, seen = container.place.configured, container.place.seen
    is_astray = not container.is_idle and world.has_pin_online(container) and not seen <= pin
    return (pin & CPUSet.from_mask(container.footprint)) | (seen if is_astray else EMPTY)


def _elsewhere(world: World, state: State, grant: Assignment, claimed: CPUSet) -> CPUSet | None:
    """Return the CPUs that a grant should have instead; None if there are none."""
    bare, demand = replace(state, assignments={}), grant.demand
    least, kept = fewest_for(world, demand), grant.cpus - claimed
    # 1. What it has elsewhere.
    elsewhere = left_without(world, grant, grant.cpus, claimed)
    if len(elsewhere) >= least and is_by_its_rules(world, demand, elsewhere):
        return elsewhere
    # 2. As after a CPU went offline.
    holdings = {key: each.cpus for key, each in state.assignments.items()}
    others = {key: each for key, each in state.assignments.items() if key != grant.container}
    # What is absent could not be ordered off either: it keeps all that it has.
    floors = {
        key: each.cpus if world.is_absent(key) else least_part(world, each, each.cpus) for key, each in others.items()
    }
    surplus = {key: each.cpus - floors[key] for key, each in others.items()}
    sources = sources_for(world, bare, holdings, grant, surplus)
    found = replaced(world, with_holdings(world, bare, floors), demand, kept, sources, least)
    # 3. All but what it gained.
    return without_gains(world, grant, claimed) if found is None else found


def without_gains(world: World, grant: Assignment, claimed: CPUSet) -> CPUSet | None:
    """Return what remains of a grant without the claimed CPUs that it gained above its floor; None if it gained none of
    them, or its rules need them.
    """
    rest = left_without(world, grant, grant.cpus, claimed - grant.original)
    is_enough = fewest_for(world, grant.demand) <= len(rest) < len(grant.cpus)
    return rest if is_enough and is_by_its_rules(world, grant.demand, rest) else None


def _exchanged(world: World, state: State, grant: Assignment, cpus: CPUSet, pinned: CPUSet) -> State:
    for each in in_order(state):
        if each is grant:
            state = recorded(world, state.holding(lying_on(world, each, cpus)), each, pinned=pinned)
        elif each.cpus & cpus:
            state = recorded(
                world,
                state.holding(lying_on(world, each, left_without(world, each, each.cpus, cpus))),
                each,
                Pinned(pinned),
            )
    return state
