"""The Unix socket of the API: only its owner may open it, and it is removed when the daemon ends.

1. It is bound, made 0600, and only then listens: no connection is possible before its mode is right.
2. A socket that a crash left behind is removed at the start; at the end the socket is removed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sidecar.failures import ConfigError, StateUnwritable
from state import files

NAME: Final = "api.sock"

_LONGEST: Final = 107
"""Bytes of a Unix socket's path: `sun_path` has 108 with the zero (unix(7))."""

_BACKLOG: Final = 64
"""Connections that wait to be accepted: as many as are served at once."""


@contextmanager
def listening(state_dir: str) -> Iterator[socket.socket]:
    """Yield a socket that listens in this directory, and is removed afterwards; the caller holds the lock.

    Raise ConfigError or StateUnwritable.
    """
    path = path_in(state_dir)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    with made:
        try:
            # 2. A socket left behind by a crash.
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    os.unlink(path)
            # 1. Mode before listen.
            made.bind(path)
            os.chmod(path, 0o600)
            made.listen(_BACKLOG)
        except OSError as error:
            raise StateUnwritable(f"the socket {path} cannot be made: {files.reason(error)}") from error
        try:
            yield made
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)


def path_in(state_dir: str) -> str:
    """Return where the socket of this directory is. Raise ConfigError if that is too long a path for a Unix socket."""
    path = os.path.join(state_dir, NAME)
    size = len(os.fsencode(path))
    if size > _LONGEST:
        raise ConfigError(
            f"{path} has {size} bytes, and the path of a socket at most {_LONGEST}: choose a shorter state_dir"
        )
    return path
