"""What a reader of the state directory may take the status document for: the document, and whether it is believed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from sidecar.status.document import Status
from sidecar.status.last_state import StatusReading, reading_of
from sidecar.status.sight import Sight
from sidecar.status.status_file import NAME, is_daemon_running, read_status
from sidecar.status.status_lease import is_vouched, why_unvouched


class LastStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The document as it is on disk. `is_running` is None if that cannot be known; `outdated` tells why it may be out
    of date, "" if a daemon vouches for it.
    """

    status: Status
    is_running: bool | None
    outdated: str

    @property
    def vouched(self) -> bool:
        """Whether a daemon vouches for it: nothing else decides whether it is told as what is, or as what was."""
        return not self.outdated

    @property
    def sight(self) -> Sight:
        """How a page of the document tells it."""
        return Sight(self.is_running, is_last_word=bool(self.outdated))

    @property
    def reading(self) -> StatusReading:
        """The document with `vouched`, without claims that nothing supports."""
        return reading_of(self.status, vouched=self.vouched, outdated=not self.vouched, is_running=self.is_running)


def read_last_status(state_dir: str | Path, now: float) -> LastStatus:
    """Read the document and its lease. `now` is in seconds since 1970. Raise StateError if there is no document."""
    return StatusFollower(state_dir).read(now)


class StatusFollower:
    """Reads the document of a directory again and again: it is decoded only when it has changed."""

    def __init__(self, state_dir: str | Path) -> None:
        """Follow the document in this directory."""
        self._state_dir = state_dir
        self._stamp: tuple[int, ...] = ()
        self._status: Status | None = None

    def read(self, now: float) -> LastStatus:
        """Return the document and what its lease says. Raise StateError if there is no document."""
        # The lease first: what is read after it is at least as new.
        vouched = is_vouched(self._state_dir, now)
        status = self._document()
        return LastStatus(
            status=status,
            is_running=is_daemon_running(self._state_dir),
            outdated="" if vouched else why_unvouched(self._state_dir, is_ready=status.is_ready),
        )

    def _document(self) -> Status:
        stamp: tuple[int, ...] = ()
        with suppress(OSError):
            seen = os.stat(os.path.join(self._state_dir, NAME), follow_symlinks=False)
            stamp = seen.st_mtime_ns, seen.st_ino, seen.st_size
        if self._status is None or not stamp or stamp != self._stamp:
            # Before it is read: what is written meanwhile is another one.
            self._stamp = stamp
            self._status = read_status(self._state_dir)
        return self._status
