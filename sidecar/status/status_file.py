"""The status document on disk: the daemon replaces it, commands read it. And whether a daemon is there at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from pathlib import Path
from typing import Final

from sidecar.status.document import VERSION, Status
from sidecar.words.missing_records import no_directory, no_status
from state import checkpoint, codec, files
from state.errors import StateError

NAME: Final = "status.json"
LOCK: Final = "lock"
SOCKET: Final = "api.sock"

LIMIT: Final = 64 * 1024 * 1024
"""Bytes. A thousand containers with all their sentences take about 1 MiB."""

_CURE: Final = "a daemon of this program's version replaces it when it starts, or at the next change"

# Names and reasons are private to the host, like the checkpoint beside it.
_MODE: Final = 0o600

_ASK_SECONDS: Final = 1.0
"""How long a socket may take to accept a connection: the kernel does it for a daemon that is busy."""

SHARED_MODE: Final = 0o2750
"""Of a state directory with an `api_group`: members may enter it; new files are the group's."""


def write_status(state_dir: str | Path, status: Status) -> None:
    """Replace the document, in one step; a group that may enter the directory may read it. Raise FileUnwritable."""
    with files.directory(state_dir, create=True, mode=0o700) as at:
        is_shared = stat.S_IMODE(os.fstat(at).st_mode) == SHARED_MODE
        files.replace(at, NAME, codec.encode(status) + b"\n", mode=_MODE | (0o040 if is_shared else 0))


def is_written(state_dir: str | Path) -> bool:
    """Return whether there is a document."""
    return os.path.lexists(os.path.join(state_dir, NAME))


def read_status(state_dir: str | Path) -> Status:
    """Return the last document. Raise StateError, with the cure, if there is none that can be understood."""
    if not os.path.lexists(state_dir):
        raise StateError(no_directory(str(state_dir)))
    with files.directory(state_dir) as at:
        content = files.read_bounded(at, NAME, LIMIT)
    if content is None:
        has_state = any(
            files.is_there(os.path.join(state_dir, name)) for name in (checkpoint.NAME, checkpoint.PREVIOUS)
        )
        is_running = is_daemon_running(state_dir)
        raise StateError(no_status(str(state_dir), is_running=is_running, has_state=has_state))
    try:
        return decode_status(content)
    except StateError as error:
        raise StateError(f"{NAME} in {state_dir} cannot be used: {error}; {_CURE}") from error


def decode_status(content: bytes) -> Status:
    """Return a status document. Raise StateError if it is not one, or is of a later version."""
    try:
        status = codec.decode(content, Status)
    except codec.UNREADABLE as error:
        raise StateError(f"this is not a status document: {codec.flaw(error)}") from error
    if status.version > VERSION:
        raise StateError(f"the status document has version {status.version}; this program reads up to {VERSION}")
    return status


def is_daemon_running(state_dir: str | Path) -> bool | None:
    """Return whether a daemon holds the lock on this directory; None if that may not be looked at.

    To ask, the lock is taken for an instant, shared; a daemon that starts in that instant has to try twice. A user who
    may not open the lock, as a member of the `api_group`, asks the socket.
    """
    try:
        opened = os.open(Path(state_dir) / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except PermissionError:
        return _listens(os.path.join(state_dir, SOCKET))
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        with contextlib.suppress(OSError):
            os.close(opened)
    return False


def _listens(path: str) -> bool | None:
    """Return whether a process listens on this socket; None if that may not be asked either."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
        asking.settimeout(_ASK_SECONDS)
        try:
            asking.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return None
    return True
