"""A change as it was recorded, for those that follow changes inside the daemon."""

from __future__ import annotations

from typing import Protocol

import msgspec

from sidecar.log import LogLevel


class RecordedChange(msgspec.Struct, frozen=True):
    """A change, and `told`: what the file of events has of it, as JSON."""

    level: LogLevel
    message: str
    told: bytes


class Changes(Protocol):
    """The changes of this run of the daemon, by their numbers. The last ones are kept."""

    last: int
    """The number of the last change, 0 before the first."""

    def changes(self, number: int, most: int) -> tuple[tuple[RecordedChange, ...], int, int]:
        """Return the changes from this number on, `most` at most, the number of the next, and how many were missed."""
        ...

    async def wait(self) -> None:
        """Wait for the next change."""
        ...
