"""What changed between two worlds, as log lines for people: who got CPUs, who lost them, who was refused, and why.

Pure: worlds in, lines out. Said once each; what is true for long stands in the status document.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from sidecar.decide.demand import is_single_file_mount
from sidecar.decide.world import World
from sidecar.log import Level


class Line(msgspec.Struct, frozen=True):
    """One line of the log."""

    level: Level
    message: str
    fields: dict[str, object]


def news(before: World, now: World) -> Iterator[Line]:
    """The lines that a change from one world to a later one is worth."""
    if before.state is not now.state:
        yield from _books(before, now)
    if before.containers is not now.containers:
        yield from _warnings(before, now)
    for note in now.notes:
        if note not in before.notes:
            yield Line(Level.WARNING, "the books were fitted to this machine and configuration", {"note": note})


def _books(before: World, now: World) -> Iterator[Line]:
    old, new = before.state, now.state
    for id, assignment in new.assignments.items():
        was = old.assignments.get(id)
        if was is None:
            yield Line(Level.INFO, "granted", {"container": assignment.name, "cpus": assignment.cpus})
        elif was.cpus != assignment.cpus:
            yield Line(Level.INFO, "moved", {"container": assignment.name, "from": was.cpus, "to": assignment.cpus})
    for id, assignment in old.assignments.items():
        if id not in new.assignments:
            yield Line(Level.INFO, "released", {"container": assignment.name, "cpus": assignment.cpus})
    for id, refusal in new.refusals.items():
        if old.refusals.get(id) != refusal:
            yield Line(Level.WARNING, "refused", {"container": refusal.name, "reason": refusal.reason})


def _warnings(before: World, now: World) -> Iterator[Line]:
    for id, container in now.containers.items():
        known = before.containers.get(id)
        if known is container or (known is not None and known.wish == container.wish):
            continue
        name = container.view.name
        for warning in container.wish.warnings:
            if known is None or warning not in known.wish.warnings:
                yield Line(Level.WARNING, warning, {"container": name})
        if known is None and is_single_file_mount(container.view, now.settings):
            message = "it mounts a projected file, which stays stale for ever: mount the directory"
            yield Line(Level.WARNING, message, {"container": name})
