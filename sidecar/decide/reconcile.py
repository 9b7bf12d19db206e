"""The world at the start, and after a machine or settings that changed."""

from __future__ import annotations

from sidecar.decide.books.refit import refit
from sidecar.decide.container.machine import after
from sidecar.decide.container.news import WishRead
from sidecar.decide.settings import Settings
from sidecar.decide.sightings import wished_anew
from sidecar.decide.world import World, replace
from state.model import State
from state.topology import Topology


def begin(state: State, topology: Topology, settings: Settings) -> World:
    """The world at the start of the daemon: the books from the checkpoint, fitted to this machine and settings."""
    return with_settings(World(state=state, topology=topology, settings=settings), settings)


def with_settings(world: World, settings: Settings) -> World:
    """The world under other settings: the books fitted (`refit`), and everybody's wish read again."""
    state, notes = refit(world.state, world.topology, settings, world.strangers)
    world = replace(world, state=state, settings=settings, notes=notes)
    containers = {
        key: after(container, WishRead(wished_anew(world, container))) for key, container in world.containers.items()
    }
    return replace(world, containers=containers)


def with_topology(world: World, topology: Topology) -> World:
    """The world on a machine whose CPUs came or went. What the engine refused before may be asked again."""
    if topology == world.topology:
        return world
    return with_settings(replace(world, topology=topology), world.settings)
