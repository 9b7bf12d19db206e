"""The lease of the status document: a daemon that runs, but is stalled or stuck, does not vouch for what it wrote.

It is a file of the state directory, renewed together with the leases of projections (`state.lease`). A lock shows only
that the process is there.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from sidecar.status.status_file import is_daemon_running
from state import files, lease
from state.errors import StateError

_MODE: Final = 0o600


def renew_status_lease(state_dir: str | Path, seconds: float) -> None:
    """Set the time of the lease, in seconds since 1970; 0 ends it. Raise StateError."""
    with files.directory(state_dir) as at:
        try:
            os.utime(lease.NAME, times=(seconds, seconds), dir_fd=at, follow_symlinks=False)
        except OSError:
            with files.write_beside(at, lease.NAME, b"", sync=False, mode=_MODE) as fresh:
                os.utime(fresh, times=(seconds, seconds), dir_fd=at, follow_symlinks=False)
                os.rename(fresh, lease.NAME, src_dir_fd=at, dst_dir_fd=at)


def why_unvouched(state_dir: str | Path, *, is_ready: bool) -> str:
    """Return why no daemon vouches for the document, as a sentence for people.

    Whether one does, the lease alone decides. What the document says of itself, `is_ready`, only tells why not: a
    daemon that is not ready waits for its engine.
    """
    if (is_running := is_daemon_running(state_dir)) is False:
        return f"no daemon is running on {state_dir}"
    if is_running is None:
        return f"no daemon vouches for what is in {state_dir}, and it cannot be seen from here whether one runs"
    why = "it is stopped, stalled or stuck, or cannot write it" if is_ready else "it waits for its engine"
    return f"the daemon on {state_dir} runs, but does not vouch for this: {why}; this is its last state"


def end_status_lease(state_dir: str | Path) -> None:
    """Vouch for the document no more. No error: the lease runs out."""
    with suppress(StateError):
        renew_status_lease(state_dir, 0.0)


def is_vouched(state_dir: str | Path, now: float) -> bool:
    """Return whether a daemon vouches for the document. `now` is in seconds since 1970."""
    renewed = _renewed_at(state_dir)
    return renewed is not None and _counts(renewed, now) and is_daemon_running(state_dir) is not False


def _renewed_at(state_dir: str | Path) -> float | None:
    """Return when the lease was last renewed, in seconds since 1970; None if there is none."""
    with suppress(OSError):
        found = os.lstat(Path(state_dir) / lease.NAME)
        return found.st_mtime if stat.S_ISREG(found.st_mode) else None
    return None


def _counts(renewed: float, now: float) -> bool:
    return lease.seconds_left(renewed, lease.LEASE_SECONDS, now) > 0
