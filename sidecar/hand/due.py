"""What the watcher does later without an event: another attempt, a report that was too early."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

Action = Callable[[float], None]
"""Given the present time, in seconds of the monotonic clock."""


class Due:
    """Actions by their time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()

    def at(self, when: float, action: Action) -> None:
        """Have an action run at this time, or soon after."""
        heapq.heappush(self._heap, (when, next(self._numbers), action))

    def run(self, now: float) -> None:
        """Run what is due; not what is added meanwhile."""
        ready = []
        while self._heap and self._heap[0][0] <= now:
            ready.append(heapq.heappop(self._heap)[2])
        for action in ready:
            action(now)

    def pause(self, now: float) -> float | None:
        """Return the seconds until the next action; None without one."""
        return max(0.0, self._heap[0][0] - now) if self._heap else None
