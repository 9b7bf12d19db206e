"""The lock that keeps a second sidecar off the same state."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sidecar.failures import AlreadyRunning, StateUnwritable
from sidecar.status.status_file import SHARED_MODE
from state.files import reason

NAME: Final = "lock"

TRIES: Final = 5
TRY_SECONDS: Final = 0.05


class Lock:
    """A lock that is held: its file, by its path and open."""

    def __init__(self, path: str, opened: int) -> None:
        self._path = path
        self._opened = opened

    def is_in_place(self) -> bool:
        """Return whether the file at its path is still this one: the state directory may be deleted or replaced
        meanwhile.
        """
        try:
            found = os.stat(self._path, follow_symlinks=False)
        except OSError:
            return False
        held = os.fstat(self._opened)
        return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)

    def is_free(self) -> bool:
        """Return whether no other lock has replaced a lock that is not in its place any more."""
        return not os.path.lexists(self._path)


@contextmanager
def hold_lock(state_dir: str) -> Iterator[Lock]:
    """Hold the lock of a state directory within the block, creating the directory if needed.

    The kernel drops the lock with the process. Raise AlreadyRunning with the holder's process ID, as the holder sees
    it, and StateUnwritable if the file cannot be opened.
    """
    try:
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        _keep_others_out(state_dir)
        opened = os.open(os.path.join(state_dir, NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StateUnwritable(_unusable(state_dir, error)) from error
    try:
        if not _locked(opened):
            holder = os.read(opened, 32).decode("ascii", "replace").strip() or "unknown"
            raise AlreadyRunning(f"another sidecar (process {holder}) runs on {state_dir}: stop it first")
        try:
            os.ftruncate(opened, 0)
            os.write(opened, f"{os.getpid()}\n".encode())
        except OSError as error:
            # If this cannot be written, no state can be recorded either.
            raise StateUnwritable(_unusable(state_dir, error)) from error
        yield Lock(os.path.join(state_dir, NAME), opened)
    finally:
        os.close(opened)


def _keep_others_out(state_dir: str) -> None:
    """Take from others what a directory that was there already gives them. Raise StateUnwritable if it is another's.

    The mode that lets a group reach the socket stays until the socket is made, or is not made for a group.
    """
    found = os.stat(state_dir)
    if found.st_uid not in (os.geteuid(), 0):
        raise StateUnwritable(
            f"the state directory {state_dir} belongs to user {found.st_uid}, which could replace what is recorded "
            "there: give it to the user that runs the sidecar, or set state_dir"
        )
    if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) not in (0o700, SHARED_MODE):
        os.chmod(state_dir, 0o700)


def _unusable(state_dir: str, error: OSError) -> str:
    return f"the state directory {state_dir} cannot be used: {reason(error)}: make it writable, or set state_dir"


def _locked(opened: int) -> bool:
    """Take the lock. Commands hold it for an instant to check for a daemon, so one refusal is not enough."""
    for attempt in range(TRIES):
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(TRY_SECONDS if attempt < TRIES - 1 else 0)
        else:
            return True
    return False
