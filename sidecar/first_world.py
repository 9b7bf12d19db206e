"""The World with which a daemon begins: its books, adapted to this machine and configuration."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.config.config import Config
from sidecar.decide.contacts import Contact, UnitSources
from sidecar.decide.reconcile import begin
from sidecar.decide.world import World, replace
from sidecar.log import Log
from sidecar.words.changes import at_start
from state.errors import StateError
from state.model import State
from state.topology import Topology


def first_world(
    config: Config,
    recorded: State,
    topology: Topology,
    checkpoints: SparedCheckpoint,
    log: Log,
    engines: Sequence[str],
    confined: tuple[str, ...],
) -> World:
    """Return it, recorded and then logged: the lines tell the grants also if the daemon is killed at once. `engines`
    are the names of several, and `confined` the sources of units.
    """
    world = replace(begin(recorded, topology, config.settings()), sources=UnitSources(confined))
    for name in engines:
        world = world.with_contact(name, Contact())
    if world.state != recorded:
        with suppress(StateError):
            # One that cannot be written is told, and tried again, with the first decision.
            checkpoints.save(world.state)
    for line in at_start(recorded, world):
        log.say(line.level, line.message, line.fields)
    return world
