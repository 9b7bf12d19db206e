"""Worlds whose engines are reached, or are not, without the facts that bring it about."""

from __future__ import annotations

from sidecar.decide.contacts import Contact, Readiness
from sidecar.decide.facts import EngineInfo
from sidecar.decide.world import World, replace


def with_readiness(world: World, readiness: Readiness, engine: str = "docker") -> World:
    """Return the world in which all engines that it knows, or else this one, are as ready as that."""
    contacts = world.contacts or {engine: Contact()}
    return replace(world, contacts={name: replace(each, readiness=readiness) for name, each in contacts.items()})


def with_info(world: World, info: EngineInfo | None) -> World:
    """Return the world in which this is the only engine, as ready as the one before; None: no engine is known."""
    if info is None:
        return replace(world, contacts={})
    readiness = next((each.readiness for each in world.contacts.values()), Contact().readiness)
    return replace(world, contacts={info.name: Contact(info, readiness)})
