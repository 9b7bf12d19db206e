"""What other programs write into one group: for how long it stands, and what people have not been told of it yet.

The theory. Which program wins there is a matter of time, and not of a number: inotify makes one event of equal ones
that are not read yet, and the hand may wait for a CPU, or for the kernel's lock on cpusets. So for each write that it
undoes the hand measures how long that write stood, by its own clock: from when its thread was woken, or from its last
look at the group if that was later; or from the last look in any case, if that already showed that its own write was
gone. It ends when a look shows the expected line again. What a thread waited for a CPU after it was woken is known from
the scheduler (`run_delay`). A write that the hand cannot undo at once, because of groups inside or because the kernel
lets it not, is counted with each attempt, for as long as it stands.

These times fill a measure that empties while a group has what it should have. A group is *wrested* while the measure
is full.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.wresting import MOST_UNDONE

MOST_STOOD_SECONDS: Final = 0.1
"""What a measure holds."""

MOST_OF_ONE_SECONDS: Final = 0.02
"""What one write adds at most: five are needed to fill a measure. One that is undone late is a busy host's, and no
loop's.
"""

TOLERATED: Final = 0.05
"""So much of the time leaves the measure in which no foreign write stood: a part that small fills none."""

_TOLD_SECONDS: Final = 1.0
"""Between two reports of the same group."""


class Overwrites:
    """Foreign writes of one group. Times are in seconds of the monotonic clock."""

    __slots__ = (
        *("_added_at", "_counted", "_due", "_found", "_is_lost", "_is_told", "_looked", "_stood", "_times"),
        "_told_at",
    )

    def __init__(self) -> None:
        self._looked = 0.0
        self._is_lost = False
        self._stood = 0.0
        self._added_at = 0.0
        self._found = b""
        self._times = 0
        self._told_at = 0.0
        self._due: float | None = None
        self._is_told = False
        self._counted: float | None = None
        """Until when a write that still stands was counted; None if none does."""

    @property
    def is_standing(self) -> bool:
        """Whether the last attempt to undo a write failed."""
        return self._counted is not None

    def stood(self, began: float, now: float, *, is_over: bool) -> float:
        """Return for how long what was written when it `began` stood until now, since it was last counted. `is_over`:
        it is undone now; if not, the next count begins here.
        """
        since = began if self._counted is None else self._counted
        self._counted = None if is_over else now
        return now - since

    def began(self, since: float) -> float:
        """Return when what a look shows was written, at the earliest, and not before `since`: at the last look, if that
        showed that the hand's own write was gone.
        """
        return self._looked if self._is_lost else max(since, self._looked)

    def looked(self, now: float, *, is_lost: bool) -> None:
        """Count a look. `is_lost`: what was written just before it is gone."""
        self._looked, self._is_lost = now, is_lost

    def add(self, stood: float, now: float) -> None:
        """Count that a write stood for so many seconds until now."""
        kept = max(0.0, self._stood - TOLERATED * max(0.0, now - self._added_at - stood))
        # Twice as much: what is over is forgotten some seconds later.
        self._stood = min(2 * MOST_STOOD_SECONDS, kept + min(MOST_OF_ONE_SECONDS, max(0.0, stood)))
        self._added_at = now

    @property
    def is_wrested(self) -> bool:
        """Whether foreign writes stood for a part of the time that counts, when the last one was counted."""
        return self._stood >= MOST_STOOD_SECONDS

    @property
    def is_urgent(self) -> bool:
        """Whether it became wrested since the last report."""
        return self.is_wrested and not self._is_told

    def count(self, found: bytes, now: float) -> float | None:
        """Count a write to be reported. Return when the next report is due, None if that is known already.

        A second after the last one, but at once if the group becomes wrested, or is written more often than is surely
        undone.
        """
        self._found = found
        self._times += 1
        if (self.is_wrested or self._times >= MOST_UNDONE) and not self._is_told:
            self._is_told, self._due = True, now
        elif self._due is None:
            self._due = max(now, self._told_at + _TOLD_SECONDS)
        else:
            return None
        return self._due

    def report(self, due: float, now: float) -> tuple[bytes, int]:
        """Return what was found last, and how many writes are to be reported: 0 if none, or not at this time."""
        if due != self._due:
            return b"", 0
        found, times = self._found, self._times
        self._is_told = self.is_wrested or times >= MOST_UNDONE
        self._times, self._told_at, self._due = 0, now, None
        return found, times
