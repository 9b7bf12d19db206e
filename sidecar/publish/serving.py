"""hypercorn's connections on a socket that listens already, as tasks of ours.

hypercorn's own `serve` would do the accepting, too, but it shields what it sends from cancellation: a client that never
reads would keep the daemon from ending, and one that stays for events would make it wait for a grace. So the accepting
is here, where every connection is known: at the end each is closed, which ends what is being sent to it at once.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Final

import trio
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import wrap_app

MOST: Final = 64
"""Connections at once: a few people, a scraper, and dashboards that stay. More are closed at once."""

SEND_SECONDS: Final = 10.0
"""How long a client may read nothing of what is sent."""

Asgi = Callable[..., Awaitable[None]]


async def serve_connections(listener: socket.socket, app: Asgi, config: Config) -> None:
    """Serve until cancelled; then every connection is closed at once."""
    wrapped, context = wrap_app(app, config.wsgi_max_body_size, "asgi"), WorkerContext(None)
    streams: set[trio.SocketStream] = set()

    async def serve(stream: trio.SocketStream) -> None:
        if len(streams) >= MOST:
            await stream.aclose()
            return
        streams.add(stream)
        try:
            connection = _Patient(stream)
            await TCPServer(wrapped, config, context, ConnectionState({}), connection)  # type: ignore[arg-type]
        finally:
            streams.discard(stream)

    accepting = trio.SocketListener(trio.socket.from_stdlib_socket(listener.dup()))
    async with trio.open_nursery() as connections:
        try:
            await trio.serve_listeners(serve, [accepting], handler_nursery=connections)
        finally:
            # Before the nursery waits for them: whoever is being sent to sees its connection closed.
            for stream in streams:
                stream.socket.close()


class _Patient:
    """A connection as hypercorn uses it, with a time for each send."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self.socket = stream.socket
        self.receive_some = stream.receive_some
        self.send_eof = stream.send_eof
        self.aclose = stream.aclose

    async def send_all(self, content: bytes) -> None:
        with trio.move_on_after(SEND_SECONDS):
            await self._stream.send_all(content)
            return
        self.socket.close()
        raise trio.BrokenResourceError
