"""How long each take waits at most, in wall-clock time, for people who watch the countdown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from sidecar.decide.moves.timers import notice_of
from sidecar.decide.world import World
from state.key import ContainerKey


class Deadlines:
    """Remembers when each take was first seen. The executor owns the timers themselves: this is only for display."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._ends: dict[tuple[ContainerKey, int], datetime] = {}

    def of(self, world: World) -> dict[tuple[ContainerKey, int], str]:
        """Return until when each grant of this world may use all that is leaving it and not due: RFC 3339, by container
        and the number of its last take. Of several takes it is the last to end.
        """
        found, ends = {}, {}
        for key, assignment in world.state.assignments.items():
            leaving = assignment.leaving
            if leaving is None or leaving.is_due:
                continue
            for each in leaving.batches:
                notice = timedelta(seconds=notice_of(world, assignment, each))
                ends[key, each.number] = self._ends.get((key, each.number)) or self._clock() + notice
            last = max(ends[key, each.number] for each in leaving.batches)
            found[key, leaving.number] = last.isoformat(timespec="milliseconds")
        self._ends = ends
        return found
