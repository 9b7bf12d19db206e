"""The Unix socket of the API: only its owner and a configured group may open it; it is removed when the daemon ends.

1. It is bound, made 0600, and only then listens: no connection is possible before its mode is right. For a group it is
   0660, and the state directory 2750: members see the names of files, and new files are the group's.
2. A socket that a crash left behind is removed at the start; at the end the socket is removed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sidecar.config.serving import SOCKET, group_of, socket_in
from sidecar.contradictions import NoSuchGroup, SocketPathTooLong
from sidecar.failures import ConfigError, StateUnwritable
from sidecar.misreadings import Misreading
from sidecar.status.status_file import SHARED_MODE
from sidecar.words.misread import sentence
from state import files

NAME: Final = SOCKET

_CREDENTIALS: Final = "3i"
PEER: Final = (socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_CREDENTIALS))
"""The option of a connected socket that tells the process, user and group at its other end (unix(7))."""

_BACKLOG: Final = 64
"""Connections that wait to be accepted: as many as are served at once."""


@contextmanager
def listening(state_dir: str, group: int | None = None) -> Iterator[socket.socket]:
    """Yield a socket that listens in this directory, and is removed afterwards; the caller holds the lock. Members of
    the `group` may open it.

    Raise ConfigError or StateUnwritable.
    """
    path = path_in(state_dir)
    open_to_group(state_dir, group)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    with made:
        try:
            # 2. A socket left behind by a crash.
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    os.unlink(path)
            # 1. Mode before listen.
            made.bind(path)
            if group is not None:
                os.chown(path, -1, group)
            os.chmod(path, 0o600 if group is None else 0o660)
            made.listen(_BACKLOG)
        except OSError as error:
            raise StateUnwritable(f"the socket {path} cannot be made: {files.reason(error)}") from error
        try:
            yield made
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)


def group_id(group: str) -> int | None:
    """Return the number of a group that is given by name or number; None for "". Raise ConfigError if there is none."""
    found = group_of(group)
    if isinstance(found, NoSuchGroup):
        raise ConfigError(sentence(Misreading(flaw=found)))
    return found


def open_to_group(state_dir: str, group: int | None) -> None:
    """Let the members of a group into the state directory; without one, keep them out again. Raise StateUnwritable."""
    try:
        if group is not None:
            os.chown(state_dir, -1, group)
            os.chmod(state_dir, SHARED_MODE)
        elif stat.S_IMODE(os.stat(state_dir).st_mode) == SHARED_MODE:
            os.chmod(state_dir, 0o700)
    except OSError as error:
        raise StateUnwritable(
            f"{state_dir} cannot be opened to the api_group: {error.strerror}; without CAP_CHOWN the sidecar must be a "
            "member of the group (group_add in compose, SupplementaryGroups= in a unit)"
        ) from error


def is_owner(peer: bytes) -> bool:
    """Return whether a client, by its `PEER` option, runs as root or as this process's user."""
    return user_of(peer) in (0, os.geteuid())


def user_of(peer: bytes) -> int:
    """Return the user at the other end of a connection, by its `PEER` option."""
    _, user, _ = struct.unpack(_CREDENTIALS, peer)
    return int(user)


def path_in(state_dir: str) -> str:
    """Return where the socket of this directory is. Raise ConfigError if that is too long a path for a Unix socket."""
    found = socket_in(state_dir)
    if isinstance(found, SocketPathTooLong):
        raise ConfigError(sentence(Misreading(flaw=found)))
    return found
