"""How long each take waits at most, in wall-clock time, for people who watch the countdown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sidecar.decide.moves.timers import grace_of
from sidecar.decide.world import World
from state.key import ContainerKey


class Deadlines:
    """Remembers when each take was first seen. The executor owns the timer itself: this is only for display."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._until: dict[tuple[ContainerKey, int], str] = {}

    def of(self, world: World) -> dict[tuple[ContainerKey, int], str]:
        """Return until when each take of this world waits that is not due: RFC 3339, by container and number."""
        found = {}
        for key, assignment in world.state.assignments.items():
            leaving = assignment.leaving
            if leaving is None or leaving.is_due:
                continue
            take = (key, leaving.number)
            if take not in self._until:
                ends = self._clock() + timedelta(seconds=grace_of(world, assignment))
                self._until[take] = ends.isoformat(timespec="milliseconds")
            found[take] = self._until[take]
        self._until = found
        return found
