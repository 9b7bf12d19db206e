"""Which connections of one listener are served at once, and which one loses its place when places are short.

A connection takes one of `MOST` places, except while it is answered by a route with places of its own: followers of
events and held starts keep no other connections out. Whatever the places, a *peer* with many of them gives way to one
with fewer: a user on the Unix socket, an address over TCP.

1. If all places are taken, a new connection gets the place of a client that keeps the server waiting: it is idle, or it
   sends or reads slowly. Of these it is the one of the peer with the most places, and of its clients the one that has
   kept the server waiting longest.
2. If all places of followers are taken, a new one gets the oldest place of the peer with the most, if that peer would
   still have as many as the new one's.
"""

from __future__ import annotations

import ipaddress
import socket
from collections import Counter
from collections.abc import Iterable
from typing import Final

import trio

from sidecar.api.http_connection import HttpConnection
from sidecar.api.routing import Route, RouteTable
from sidecar.api.unix_socket import PEER, is_owner, user_of
from sidecar.log import Log

MOST: Final = 64
"""Connections at once: a few people, a scraper, and dashboards that stay connected."""

_SITE_BITS: Final = 64
"""Of an IPv6 address: a host chooses the other half itself."""


async def serve_connections(
    listener: socket.socket, table: RouteTable, log: Log, group: RouteTable | None = None
) -> None:
    """Serve until cancelled; then close every connection at once.

    On the Unix socket, `group` has the routes for clients that are neither root nor the daemon's own user.
    """
    places = _Places()

    async def serve(stream: trio.SocketStream) -> None:
        peer, is_theirs = _peer_of(stream.socket, is_unix=group is not None)
        routes = table if is_theirs or group is None else group
        connection = HttpConnection(stream, routes, places.is_crowded, log, peer)
        if not places.admit(connection):
            await trio.aclose_forcefully(stream)
            return
        try:
            await connection.serve()
        finally:
            places.leave(connection)

    accepting = trio.SocketListener(trio.socket.from_stdlib_socket(listener.dup()))
    await trio.serve_listeners(serve, [accepting])


def _peer_of(connected: trio.socket.SocketType, *, is_unix: bool) -> tuple[str, bool]:
    """Return whose connection this is, and whether it is the owner's: root and the daemon's own user are one peer."""
    if is_unix:
        credentials = connected.getsockopt(*PEER)
        return ("", True) if is_owner(credentials) else (str(user_of(credentials)), False)
    try:
        address = ipaddress.ip_address(connected.getpeername()[0].partition("%")[0])
    except (OSError, ValueError):
        # It has left already.
        return "", False
    if address.version == 6:
        return str(ipaddress.ip_network((address, _SITE_BITS), strict=False)), False
    return str(address), False


class _Places:
    """The connections of one listener."""

    def __init__(self) -> None:
        self._served: set[HttpConnection] = set()

    def admit(self, newcomer: HttpConnection) -> bool:
        """Give it a place, if necessary that of another connection. Return False if all are being answered (1)."""
        sharing = [each for each in self._served if each.route is None or not each.route.places]
        if len(sharing) >= MOST:
            held = _held_by_peers(sharing)
            waiting = [(-held[each.peer], since, each) for each in sharing if (since := each.waits_since) is not None]
            if not waiting:
                return False
            *_, yields = min(waiting, key=lambda one: one[:2])
            self._end(yields)
        self._served.add(newcomer)
        return True

    def leave(self, connection: HttpConnection) -> None:
        """Free its place, if it still has one."""
        self._served.discard(connection)

    def is_crowded(self, route: Route, peer: str) -> bool:
        """Return whether this route has no place for the peer. One may have come free by this (2)."""
        answered = [each for each in self._served if each.route is route]
        if len(answered) < route.places:
            return False
        held = _held_by_peers(answered)
        most = max(held, key=held.__getitem__)
        if not route.yields or held[most] <= held[peer] + 1:
            return True
        self._end(min((each for each in answered if each.peer == most), key=lambda each: each.answers_since))
        return False

    def _end(self, connection: HttpConnection) -> None:
        connection.end()
        self.leave(connection)


def _held_by_peers(connections: Iterable[HttpConnection]) -> Counter[str]:
    return Counter(each.peer for each in connections)
