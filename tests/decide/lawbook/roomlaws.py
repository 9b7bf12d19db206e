"""The laws of the room: no container keeps CPUs that a grant would be refused, and isolated ones are not shared."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.room import room
from sidecar.decide.moves.release import way_out
from sidecar.decide.settings import IsolatedRule, PolicyName, Settings
from sidecar.decide.world import World, replace
from sidecar.words.refusals import sentence
from state.cpuset import EMPTY
from state.model import State
from state.topology import Topology
from tests.support.decide.reality import Reality


def kept_without_room(state: State, topology: Topology, settings: Settings) -> list[str]:
    """Return grants that the rule of the room objects to, regardless of their age and of other grants."""
    if settings.policy is PolicyName.NONE:
        return []
    found, books = [], replace(state, assignments={})
    for grant in sorted(state.assignments.values(), key=lambda each: each.since):
        if objection := room(topology, settings, books).objection(grant.cpus):
            found.append(f"{grant.name} keeps {grant.cpus} and would not be granted it: {sentence(objection)}")
        books = books.holding(grant)
    return found


def held_without_room(world: World) -> list[str]:
    """Return the same at any time. Under `dynamic` CPUs are only counted: a container that shrinks for an arrival makes
    room by number, and where cores differ in width, not always on the core that would stay whole.
    """
    settings = world.settings
    if settings.policy is PolicyName.DYNAMIC:
        settings = replace(settings, options=())
    return kept_without_room(world.state, world.topology, settings)


def isolated_and_shared(reality: Reality) -> Iterator[str]:
    """Yield orders of containers without a grant onto isolated CPUs that are for exclusive ones, but for those to which
    a container is pinned by hand, or goes back, also as it leaves management ("While it rests it gets back what it had,
    and is forgotten", 0054).
    """
    world = reality.world
    if world.settings.isolated is IsolatedRule.IGNORE or world.is_releasing:
        return
    for order in (*reality.new_orders, *reality.new_moves):
        container = world.containers[order.container]
        meant = world.topology.isolated - world.state.reserved - container.wish.pin - world.home_of(container)
        meant -= way_out(world, container) or EMPTY
        if order.container not in world.state.assignments and (both := order.update.cpus & meant):
            yield f"{container.view.name} was ordered onto {both}, which are isolated, and shares them"
