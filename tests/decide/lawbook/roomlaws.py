"""The law of the room: no container keeps CPUs that a grant would be refused."""

from __future__ import annotations

from sidecar.decide.books.room import room
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import World, replace
from sidecar.words.refusals import sentence
from state.model import State
from state.topology import Topology


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
