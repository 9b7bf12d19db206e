"""hypercorn's connections on a socket that listens already, as tasks of ours.

hypercorn's own `serve` would do the accepting, too, but it shields what it sends from cancellation: a client that never
reads would keep the daemon from ending, and one that stays for events would make it wait for a grace. So the accepting
is here, where every connection is known: at the end each is closed, which ends what is being sent to it at once.

And hypercorn lets exceptions escape where clients break the protocol in ways that it did not expect, which would end
its server, or waits for ever for what cannot come. So this is the one place beside the root where any exception is
caught, and a connection on which nothing moves is ended.
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

from sidecar.log import Log

MOST: Final = 64
"""Connections at once: a few people, a scraper, and dashboards that stay. More are closed at once."""

SEND_SECONDS: Final = 10.0
"""How long a client may read nothing of what is sent."""

CLOSE_SECONDS: Final = 0.2
"""How long a connection may take to end once nothing more is received: hypercorn would keep its place for five."""

QUIET_SECONDS: Final = 60.0
"""How long nothing may be received or sent: whoever follows events is sent something every 15 s."""

Asgi = Callable[..., Awaitable[None]]


async def serve_connections(listener: socket.socket, app: Asgi, config: Config, log: Log) -> None:
    """Serve until cancelled; then every connection is closed at once. One that fails is told of in the log."""
    wrapped, context = wrap_app(app, config.wsgi_max_body_size, "asgi"), WorkerContext(None)
    streams: set[trio.SocketStream] = set()

    async def serve(stream: trio.SocketStream) -> None:
        if len(streams) >= MOST:
            await stream.aclose()
            return
        streams.add(stream)
        try:
            with trio.CancelScope() as scope:
                connection = _Connection(stream, scope)
                await TCPServer(wrapped, config, context, ConnectionState({}), connection).run()  # type: ignore[arg-type]
        except* Exception as failed:
            # Whatever hypercorn raises where a client breaks the protocol is the end of that connection only.
            log.warning("a connection to the API failed", reason=_first(failed))
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


def _first(failed: BaseExceptionGroup[Exception]) -> str:
    error: BaseException = failed
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


class _Connection:
    """A connection as hypercorn uses it, with a time for each send, for silence, and for what remains once the client
    has gone. `scope` is around all of it.
    """

    def __init__(self, stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        self._stream = stream
        self._scope = scope
        self._has_ended = False
        self.socket = stream.socket
        self.aclose = stream.aclose
        self._end_after(QUIET_SECONDS)

    async def receive_some(self, most: int) -> bytes:
        try:
            content = await self._stream.receive_some(most)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._end()
            raise
        if content:
            self._end_after(QUIET_SECONDS)
        else:
            self._end()
        return bytes(content)

    async def send_eof(self) -> None:
        """Nothing: hypercorn closes the connection next, and another task may just be sending."""

    async def send_all(self, content: bytes) -> None:
        self._end_after(QUIET_SECONDS)
        with trio.move_on_after(SEND_SECONDS):
            await self._stream.send_all(content)
            return
        self.socket.close()
        raise trio.BrokenResourceError

    def _end(self) -> None:
        self._end_after(CLOSE_SECONDS)
        self._has_ended = True

    def _end_after(self, seconds: float) -> None:
        if not self._has_ended:
            self._scope.deadline = trio.current_time() + seconds
