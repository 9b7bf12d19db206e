"""The lease of a projection directory: the daemon vouches for the files while it renews the time of one of them.

1. Only the modification time of the file `lease` says something, not its content. It counts from one second before it
   to `lease_seconds` after it, by the wall clock. A time further in the future does not count, nor does that of a link,
   a pipe or a directory.
2. A workload that may write the directory can forge the lease, too. Only a directory inside this one may share the
   file, so it forges nothing outside of what it may write.
3. Read the lease first and `status.json` after it. The daemon renews only what is true: so what is read after a lease
   that counts is at least as new.
4. A renewal wakes no watcher of the directory. A lease that begins or ends is moved into place, which wakes all.
"""

from __future__ import annotations

import os
import stat
from typing import Final

NAME: Final = "lease"

LEASE_SECONDS: Final = 15.0
"""How long a renewal counts: three of them may come late or be lost, as on a machine that is short of CPU time."""

RENEW_SECONDS: Final = 5.0
"""Between two renewals."""

AHEAD_SECONDS: Final = 1.0
"""How far ahead of the reader's clock a time may be: file systems and machines beside this one round and drift."""


def seconds_left(renewed_at: float | None, lease_seconds: float | None, now: float) -> float:
    """Return for how many seconds from `now` a lease that was renewed at this time counts; 0 if it does not.

    Times are in seconds since 1970. None, for no lease, never counts.
    """
    if renewed_at is None or lease_seconds is None:
        return 0.0
    age = now - renewed_at
    return max(0.0, lease_seconds - age) if age >= -AHEAD_SECONDS else 0.0


def renewed_at(at: int) -> float | None:
    """Return when the lease in the directory `at` was last renewed, in seconds since 1970; None if there is none."""
    try:
        found = os.stat(NAME, dir_fd=at, follow_symlinks=False)
    except OSError:
        return None
    return found.st_mtime if stat.S_ISREG(found.st_mode) else None
