"""Commands that change files of the host wait for each other: two at once would each undo half of the other's work.

The lock is a file that only its owner can open, so no other user can hold them up; it is removed with the lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from sidecar.failures import SidecarError, StateUnwritable
from sidecar.host.install.runtime_files import below
from state.files import reason

NAME: Final = "cpuset-sidecar-setup.lock"

WAIT_SECONDS: Final = 90.0
"""How long the other one is waited for: longer than it waits for an engine."""

_TRY_SECONDS: Final = 0.05
_TRIES: Final = 100


@contextmanager
def one_at_a_time(root: str) -> Iterator[None]:
    """Do this while no other such command does anything to this host, after waiting for one that does. SidecarError if
    that takes too long; StateUnwritable if the lock cannot be made.
    """
    folder = _folder(root)
    path, is_new = os.path.join(folder, NAME), not os.path.isdir(folder)
    try:
        opened = _taken(path)
    except OSError as error:
        raise StateUnwritable(f"cannot make the lock {path}: {reason(error)}: nothing was changed") from error
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
            if is_new:
                os.rmdir(folder)
        os.close(opened)


def _folder(root: str) -> str:
    if os.geteuid() == 0:
        return below(root, "/run")
    # The same in each session, whatever its environment.
    return os.path.expanduser("~/.config")


def _taken(path: str) -> int:
    end, is_told = time.monotonic() + WAIT_SECONDS, False
    while True:
        opened = _opened(path)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, opened):
                return opened
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(opened)
                raise SidecarError(
                    "another install-runtime or install-slice has been at work on this host for "
                    f"{WAIT_SECONDS:g} s: nothing was changed; run this again when that has ended"
                ) from None
            if not is_told:
                is_told = True
                sys.stderr.write("waiting for another install-runtime or install-slice to end\n")
            time.sleep(_TRY_SECONDS)
        os.close(opened)


def _opened(path: str) -> int:
    """Open the file, in a directory that the one before may just have removed."""
    for _ in range(_TRIES):
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def _is_at(path: str, opened: int) -> bool:
    """Return whether the file is still at its path: the one before removes it as it ends."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(opened))
    return False
