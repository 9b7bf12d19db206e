"""Clearing: what workloads left in their directories is removed, in bounded time, through no link and into no mount.

Files are emptied before they are unlinked: a process that has one open keeps its bytes otherwise. A directory within
another one is moved up before it is cleared, so that no depth needs more than two descriptors.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import islice
from typing import Final

from state import ack, files, lease
from state.errors import FileUnreadable
from state.projection import CPUSET, STATUS

OURS: Final = frozenset((CPUSET, STATUS, ack.NAME, lease.NAME))
"""The files of a projection directory."""

MOST_ENTRIES: Final = 1000
"""Entries that one call removes: some milliseconds. The next call goes on."""

_SMALL: Final = 64 * 1024
"""Bytes of a file that is not emptied when it is removed: a reader of ours must not find half of one."""

_EMPTYING: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def clear(at: int, *, keep: frozenset[str] = frozenset()) -> int:
    """Remove everything but `keep` from the directory that is open as `at`. Return how many entries were removed."""
    removed = 0
    with suppress(OSError):
        while removed < MOST_ENTRIES:
            names = [name for name in _names(at) if name not in keep]
            done = sum(_remove(name, at) for name in names)
            removed += done
            if not done:
                break
    return removed


def _names(at: int) -> list[str]:
    with os.scandir(at) as entries:
        return [entry.name for entry in islice(entries, MOST_ENTRIES)]


def _remove(name: str, above: int) -> int:
    """Remove an entry, or what is directly inside it; return how many entries were removed or moved up."""
    done = 0
    with suppress(OSError, FileUnreadable):
        found = os.stat(name, dir_fd=above, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            if stat.S_ISREG(found.st_mode):
                _empty(name, above)
            os.unlink(name, dir_fd=above)
            return 1
        if found.st_dev != os.fstat(above).st_dev:
            return 0
        with files.directory(name, at=above) as at:
            done = sum(_lift_or_unlink(inside, at, above) for inside in _names(at))
        os.rmdir(name, dir_fd=above)
        done += 1
    return done


def _lift_or_unlink(name: str, at: int, above: int) -> int:
    with suppress(OSError):
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            os.rename(name, f".{found.st_ino}", src_dir_fd=at, dst_dir_fd=above)
        else:
            if stat.S_ISREG(found.st_mode):
                _empty(name, at)
            os.unlink(name, dir_fd=at)
        return 1
    return 0


def _empty(name: str, at: int) -> None:
    with suppress(OSError):
        opened = os.open(name, _EMPTYING, dir_fd=at)
        try:
            found = os.fstat(opened)
            # A file with a second name may be needed by that name, and a small one is being read by a workload.
            if found.st_nlink == 1 and found.st_size > _SMALL:
                os.ftruncate(opened, 0)
        finally:
            os.close(opened)
