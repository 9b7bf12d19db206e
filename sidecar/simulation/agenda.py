"""Agenda: future actions in virtual time; actions that are due at one instant run in the order of their requests."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

Action = Callable[[], None]

_DIGITS: Final = 6
"""Digits of a time in seconds. Microseconds, so that 0.1 + 0.2 is the same instant as 0.3."""


class Agenda:
    """A clock that stands still until it is moved, and the actions that wait for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int, Action]] = []
        self._asked = 0

    @property
    def next_at(self) -> float | None:
        """When the next action is due; None if there is none."""
        return self._waiting[0][0] if self._waiting else None

    def later(self, seconds: float, begins: float = 0.0) -> float:
        """Return the time this many seconds from now, or from `begins` if that is later."""
        return round(max(self.now, begins) + seconds, _DIGITS)

    def after(self, seconds: float, action: Action) -> None:
        """Schedule an action this many seconds from now."""
        self.at(self.now + seconds, action)

    def at(self, time: float, action: Action) -> None:
        """Schedule an action at a time; at once if that is past."""
        self._asked += 1
        heapq.heappush(self._waiting, (max(round(time, _DIGITS), self.now), self._asked, action))

    def due(self, until: float) -> Action | None:
        """Return the next action that is due by `until`, and move the clock to its time.

        Return None if there is none; the clock then stays.
        """
        if not self._waiting or self._waiting[0][0] > until:
            return None
        self.now, _, action = heapq.heappop(self._waiting)
        return action

    def rest_until(self, time: float) -> None:
        """Move the clock to this time, without any action."""
        self.now = max(self.now, round(time, _DIGITS))
