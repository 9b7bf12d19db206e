"""The Unix socket of the API: made so that only its owner may open it, and gone when the daemon is.

1. It is bound, made 0600, and only then listens: nobody can connect before its mode is right.
2. What a crash left behind is removed at the start; at the end the socket is removed.
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

NAME: Final = "api.sock"

_LONGEST: Final = 107
"""Bytes of a Unix socket's path: `sun_path` has 108 with the zero (unix(7))."""

_BACKLOG: Final = 64
"""Connections that wait to be accepted: as many as are served at once."""


@contextmanager
def listening(state_dir: str) -> Iterator[socket.socket]:
    """Yield a socket that listens in this directory, and is gone afterwards; the caller holds the lock. ConfigError,
    StateUnwritable.
    """
    path = path_in(state_dir)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    with made:
        try:
            # 2. What a crash left.
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    os.unlink(path)
            # 1. Mode before listen.
            made.bind(path)
            os.chmod(path, 0o600)
            made.listen(_BACKLOG)
        except OSError as error:
            raise StateUnwritable(f"the socket {path} cannot be made: {error.strerror}") from error
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
