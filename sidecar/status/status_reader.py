"""What a reader of the state directory may take the status document for: the document, and whether it is believed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sidecar.status.document import Status
from sidecar.status.last_state import StatusReading, reading_of
from sidecar.status.sight import Sight
from sidecar.status.status_file import is_daemon_running, read_status
from sidecar.status.status_lease import is_vouched, why_outdated


class LastStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The document as it is on disk. `is_running` is None if that cannot be known; `outdated` tells why it may be out
    of date, "" if it is not; `vouched` is whether the daemon vouches for it.
    """

    status: Status
    is_running: bool | None
    outdated: str
    vouched: bool

    @property
    def sight(self) -> Sight:
        """How a page of the document tells it."""
        return Sight(self.is_running, is_last_word=bool(self.outdated))

    @property
    def reading(self) -> StatusReading:
        """The document with `vouched`, without claims that nothing supports."""
        is_outdated = bool(self.outdated)
        return reading_of(self.status, vouched=self.vouched, outdated=is_outdated, is_running=self.is_running)


def read_last_status(state_dir: str | Path, now: float) -> LastStatus:
    """Read the document and its lease. `now` is in seconds since 1970. Raise StateError if there is no document."""
    # The lease first: what is read after it is at least as new.
    vouched = is_vouched(state_dir, now)
    status = read_status(state_dir)
    return LastStatus(
        status=status,
        is_running=is_daemon_running(state_dir),
        outdated=why_outdated(state_dir, now, is_ready=status.is_ready),
        vouched=vouched,
    )
