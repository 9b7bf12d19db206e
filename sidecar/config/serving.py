"""What the daemon's socket needs of the configuration: a group that exists, and a path that the kernel takes."""

from __future__ import annotations

import grp
import os
from typing import Final

from sidecar.contradictions import NoSuchGroup, SocketPathTooLong

SOCKET: Final = "api.sock"

_LONGEST: Final = 107
"""Bytes of a Unix socket's path: `sun_path` has 108 with the zero (unix(7))."""


def group_of(group: str) -> int | NoSuchGroup | None:
    """Return the number of a group that is given by name or number; None for ""."""
    if not group or group.isdigit():
        return int(group) if group else None
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return NoSuchGroup(group)


def socket_in(state_dir: str) -> str | SocketPathTooLong:
    """Return where the socket of this directory is, unless that is too long a path for a Unix socket."""
    path = os.path.join(state_dir, SOCKET)
    size = len(os.fsencode(path))
    return SocketPathTooLong(path, size, _LONGEST) if size > _LONGEST else path
