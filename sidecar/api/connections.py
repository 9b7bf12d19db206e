"""Which connections of one listener are served at once, and which one loses its place when places are short.

A connection takes one of `MOST` places, except while it is answered by a route with places of its own: followers of
events and held starts keep no other connections out. If all places are taken, a new connection gets the place of the
client that has kept the server waiting longest: it is idle, or it sends or reads slowly.
"""

from __future__ import annotations

import socket
from typing import Final

import trio

from sidecar.api.http_connection import HttpConnection
from sidecar.api.routing import Route, RouteTable
from sidecar.api.unix_socket import PEER, is_owner
from sidecar.log import Log

MOST: Final = 64
"""Connections at once: a few people, a scraper, and dashboards that stay connected."""


async def serve_connections(
    listener: socket.socket, table: RouteTable, log: Log, group: RouteTable | None = None
) -> None:
    """Serve until cancelled; then close every connection at once.

    On the Unix socket, `group` has the routes for clients that are neither root nor the daemon's own user.
    """
    places = _Places()

    async def serve(stream: trio.SocketStream) -> None:
        is_theirs = group is None or is_owner(stream.socket.getsockopt(*PEER))
        connection = HttpConnection(stream, table if is_theirs or group is None else group, places.is_crowded, log)
        if not places.admit(connection):
            await trio.aclose_forcefully(stream)
            return
        try:
            await connection.serve()
        finally:
            places.leave(connection)

    accepting = trio.SocketListener(trio.socket.from_stdlib_socket(listener.dup()))
    await trio.serve_listeners(serve, [accepting])


class _Places:
    """The connections of one listener."""

    def __init__(self) -> None:
        self._served: set[HttpConnection] = set()

    def admit(self, newcomer: HttpConnection) -> bool:
        """Give it a place, if necessary that of another connection. Return False if all are being answered."""
        sharing = [each for each in self._served if each.route is None or not each.route.places]
        if len(sharing) >= MOST:
            waiting = {each: each.waits_since for each in sharing if each.waits_since is not None}
            if not waiting:
                return False
            longest = min(waiting, key=waiting.__getitem__)
            longest.end()
            self.leave(longest)
        self._served.add(newcomer)
        return True

    def leave(self, connection: HttpConnection) -> None:
        """Free its place, if it still has one."""
        self._served.discard(connection)

    def is_crowded(self, route: Route) -> bool:
        """Return whether all of this route's own places are taken."""
        return sum(each.route is route for each in self._served) >= route.places
