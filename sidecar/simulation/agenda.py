"""Agenda: what is still to happen in virtual time; what is due at one instant happens in the order of asking."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Final

Action = Callable[[], None]

_DIGITS: Final = 6
"""Of a time in seconds. Microseconds, so that 0.1 + 0.2 is the same instant as 0.3."""


class Agenda:
    """A clock that stands still until it is moved, and the actions that wait for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, int, Action]] = []
        self._asked = 0

    @property
    def next_at(self) -> float | None:
        """When something happens next; None if nothing ever will."""
        return self._waiting[0][0] if self._waiting else None

    def later(self, seconds: float, begins: float = 0.0) -> float:
        """Return the time so many seconds from now, or from `begins` if that is later."""
        return round(max(self.now, begins) + seconds, _DIGITS)

    def after(self, seconds: float, action: Action) -> None:
        """Let it happen so many seconds from now."""
        self.at(self.now + seconds, action)

    def at(self, time: float, action: Action) -> None:
        """Let it happen then; at once if that is past."""
        self._asked += 1
        heapq.heappush(self._waiting, (max(round(time, _DIGITS), self.now), self._asked, action))

    def due(self, until: float) -> Action | None:
        """Return what happens next up to `until`, and the clock is moved there; None if nothing does, and the clock
        stays.
        """
        if not self._waiting or self._waiting[0][0] > until:
            return None
        self.now, _, action = heapq.heappop(self._waiting)
        return action

    def rest_until(self, time: float) -> None:
        """Nothing happens until then."""
        self.now = max(self.now, round(time, _DIGITS))
