"""The numbers of projections: they only grow, and stay far below the highest, whatever stands in a workload's files.

A daemon that starts goes on from the numbers that it finds, in files that a workload may have written. So a number is
believed only up to a ceiling that no counter reaches by itself; a higher one counts as the ceiling, and so does a file
that cannot be understood. A planted ceiling makes it rise a little, in a record that no workload can write: it would
take some 2**43 plantings to use all numbers up. A workload that lowers the number in all its files, before a restart of
the daemon, misleads its own readers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from state.projection import Projection, ProjectionDirectory, ProjectionFiles

_CEILING: Final = 2**40
"""A thousand changes a second reach it in 35 years."""

_STEP: Final = 1024
"""How much the ceiling rises: each time costs one more write."""


def time_text(seconds: float) -> str:
    """Return the time of a projection, given in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Numbers:
    """Which numbers are believed. `put` records a ceiling, and may raise StateError."""

    def __init__(self, recorded: int | None) -> None:
        self._ceiling = max(recorded or 0, _CEILING)

    def believed(
        self, directories: Iterable[ProjectionDirectory], last: ProjectionFiles | None = None
    ) -> list[Projection]:
        """Return what these directories hold, with numbers that are believed. If it is known what was written `last`,
        and so its number, files that cannot be understood do not matter.
        """
        found: list[Projection] = []
        for directory in directories:
            told = directory.told(last)
            if told is None and last is None and not directory.is_new():
                told = Projection(generation=self._ceiling)
            if told is not None:
                is_believed = told.generation <= self._ceiling
                found.append(told if is_believed else told.stamped(self._ceiling, told.updated_at))
        return found

    def is_believed(self, number: int) -> bool:
        """Return whether a number is believed now."""
        return number <= self._ceiling

    def claim(self, number: int, put: Callable[[int], None]) -> int:
        """Return the number, which is believed from now on, after a restart too."""
        if number > self._ceiling:
            put(number + _STEP)
            self._ceiling = number + _STEP
        return number

    def put_unmanaged(self, directory: ProjectionDirectory, put: Callable[[int], None], now: str) -> None:
        """Write into a directory that no container uses it, with the next number, unless it says so."""
        before = next(iter(self.believed([directory])), None)
        gone = Projection.of_no_container(before.name if before else "")
        if before is None or not before.says_the_same_as(gone):
            directory.write(gone.stamped(self.claim((before.generation if before else 0) + 1, put), now))
