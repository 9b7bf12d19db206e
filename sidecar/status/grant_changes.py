"""The changes of grants between two worlds, for the history of the last hour. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sidecar.decide.world import World
from sidecar.status.grant_history import GrantChange, last_changes
from sidecar.words.changes import Line
from sidecar.words.history_text import ENDED_AWAY, FOUND, why_changed, why_ended


def changes_between(before: World, now: World, at: float, lines: Sequence[Line]) -> Iterator[GrantChange]:
    """Yield the changes of grants between two worlds; `lines` are the news between them, for the reasons."""
    old, new = before.state.assignments, now.state.assignments
    if old is new:
        return
    for key in [key for key in old if key not in new]:
        yield GrantChange(at=at, container=key.id, name=old[key].name, reason=why_ended(now, key))
    for key, grant in new.items():
        was = old.get(key)
        if was is None or was.cpus != grant.cpus or was.name != grant.name:
            reason = why_changed(grant.name, lines)
            yield GrantChange(at=at, container=key.id, name=grant.name, cpus=grant.cpus, reason=reason)


def changes_at_start(recorded: Iterable[GrantChange], world: World, at: float) -> Iterator[GrantChange]:
    """Yield the start of the daemon, and what is not as it was recorded: that changed while no daemon wrote it down."""
    yield GrantChange(at=at)
    held = {each.container: each for each in last_changes(recorded)}
    grants = {key.id: grant for key, grant in world.state.assignments.items()}
    for id, was in held.items():
        if id not in grants:
            yield GrantChange(at=at, container=id, name=was.name, reason=ENDED_AWAY)
    for id, grant in grants.items():
        if id not in held or held[id].cpus != grant.cpus:
            yield GrantChange(at=at, container=id, name=grant.name, cpus=grant.cpus, reason=FOUND)
