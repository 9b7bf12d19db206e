"""The TCP listener, if one is configured: for reading only, and for metrics only from other hosts.

There is no password and no encryption here, so the address determines what may be read. On a loopback address every
user of this host may read what `status` shows. On any other address the network may read figures: metrics, and whether
the daemon is well. Nothing can be changed from either.
"""

from __future__ import annotations

import enum
import errno
import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import msgspec

from sidecar.failures import ConfigError

_BACKLOG: Final = 64
"""Connections that wait to be accepted: as many as are served at once."""

_CURES: Final = {
    errno.EADDRINUSE: "another program listens there (ss -ltnp says which): choose another port",
    errno.EADDRNOTAVAIL: "no interface of this host has that address: choose one that has, or 0.0.0.0 for all",
    errno.EACCES: "ports below 1024 are for root: choose a higher one",
    errno.EAFNOSUPPORT: "in a systemd unit, RestrictAddressFamilies must also have AF_INET and AF_INET6",
}


class Access(enum.Enum):
    """What may be requested over a listener."""

    ALL = "everything"
    READ = "everything that changes nothing"
    GROUP = "everything that changes nothing, on the Unix socket"
    METRICS = "only /metrics, /healthz and /readyz"


class TcpListener(msgspec.Struct, frozen=True):
    """A socket that listens, and what may be requested there."""

    socket: socket.socket
    address: str
    reach: Access


@contextmanager
def listening_on(listen: str) -> Iterator[TcpListener | None]:
    """Yield a socket that listens at `host:port` within the block; None for "". Raise ConfigError, with the cure."""
    if not listen:
        yield None
        return
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    with ExitStack() as opened:
        try:
            made = opened.enter_context(_bound(host, int(port)))
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            cure = _CURES.get(error.errno or 0, "choose another, or leave listen out")
            raise ConfigError(f"listen is {listen!r}, and nothing can listen there: {reason}; {cure}") from error
        yield TcpListener(made, listen, reach_of(host))


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        # Connections of the previous daemon that are just ending must not block the port.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def reach_of(host: str) -> Access:
    """Return what may be requested from a listener on this address."""
    return Access.READ if ipaddress.ip_address(host).is_loopback else Access.METRICS
