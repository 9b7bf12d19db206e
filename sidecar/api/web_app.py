"""The API as a web app: what is asked over HTTP, and what is answered; all of it on the daemon's own socket only.

Every handler reads the latest World once and answers from it; what is to change goes to the allocator (`requests`).
Errors are JSON, `{"error": reason}`. Bodies are bounded. Nothing of a request reaches a path, a command or the log.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import traceback
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final

import msgspec
import trio
from hypercorn.config import Config
from hypercorn.logging import Logger
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sidecar.api.connections import serve_connections
from sidecar.api.documents import AckBody, Declined, ResizeBody, defragmented, event, found, one, parsed, sizing
from sidecar.api.metrics import CONTENT_TYPE, Metrics
from sidecar.api.requests import Requests
from sidecar.api.start_route import MAX_BODY as MAX_QUESTION
from sidecar.api.start_route import StartBody, Starts
from sidecar.api.tcp_listener import Access, TcpListener
from sidecar.board import Board
from sidecar.decide.facts import Fact
from sidecar.decide.world import World
from sidecar.log import Log
from sidecar.status.deadlines import Deadlines
from sidecar.status.document import status_of
from sidecar.status.machine_levels import whole_machine_of
from sidecar.version import version
from sidecar.words.changes import news
from state import codec

MAX_BODY: Final = 4096
"""Bytes of a body: the longest that is meant has thirty."""

MOST_LISTENERS: Final = 16
"""Clients that follow events at once; each makes its own comparison of worlds."""

ALIVE_SECONDS: Final = 15.0
"""How often who follows events hears something, so that a dead connection is noticed."""

_FIGURES: Final = ("/metrics", "/healthz", "/readyz")
"""What anybody may ask who can reach the host."""

EVENT_PAUSE: Final = 0.005
"""Seconds that events wait, so that what they tell of goes first, like the log."""


class Api:
    """The app over one board. `run` counts what only a reader of every world can count."""

    def __init__(
        self,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        deadlines: Deadlines,
        clock: Callable[[], datetime],
        *,
        starts: Starts | None = None,
    ) -> None:
        """`starts` takes the questions of OCI runtimes; whoever may be asked by anybody else has none."""
        self._board = board
        self._starts = starts
        self._requests = Requests(board, outbox)
        self._deadlines = deadlines
        self._clock = clock
        self._listeners = 0
        self._metrics = Metrics(board)
        self.count = self._metrics.count
        self.routes = (
            Route("/healthz", self._health, methods=["GET"]),
            Route("/readyz", self._readiness, methods=["GET"]),
            Route("/metrics", self._exposition, methods=["GET"]),
            Route("/v1/state", self._state, methods=["GET"]),
            Route("/v1/status", self._status, methods=["GET"]),
            Route("/v1/topology", self._topology, methods=["GET"]),
            Route("/v1/events", self._events, methods=["GET"]),
            Route("/v1/containers/{container}", self._container, methods=["GET"]),
            Route("/v1/containers/{container}/resize", self._resize, methods=["POST"]),
            Route("/v1/containers/{container}/ack", self._ack, methods=["POST"]),
            Route("/v1/defragment", self._defragment, methods=["POST"]),
            *([Route("/v1/starts", self._start, methods=["POST"])] if starts else ()),
        )

    def app(self, reach: Access = Access.ALL) -> Starlette:
        """The app, for a server on a socket of this reach."""
        errors: dict[Any, Any] = {HTTPException: _http_error, Declined: _refusal, 500: _failure}
        if reach is not Access.ALL:
            errors[HTTPException] = _not_here
        routes = [route for route in self.routes if may_ask(route, reach)]
        middleware = [Middleware(_OnlyByAddress)] if reach is Access.READ else []
        app = Starlette(routes=routes, exception_handlers=errors, middleware=middleware)
        app.router.redirect_slashes = False
        return app

    # What is.

    async def _health(self, _: Request) -> Response:
        return _json({"status": "ok", "problems": list(self._board.problems.values())})

    async def _readiness(self, _: Request) -> Response:
        if not self._board.latest.is_ready:
            raise Declined(503, "not everything was looked at since the engine was reached")
        return _json({"status": "ready"})

    async def _exposition(self, _: Request) -> Response:
        return Response(self._metrics.text(), media_type=CONTENT_TYPE)

    async def _state(self, _: Request) -> Response:
        return _json(self._board.latest.state)

    async def _status(self, _: Request) -> Response:
        world = self._board.latest
        now = self._clock().isoformat(timespec="milliseconds")
        problems = tuple(self._board.problems.values())
        deadlines = self._deadlines.of(world)
        return _json(status_of(world, program=version(), updated_at=now, problems=problems, deadlines=deadlines))

    async def _topology(self, _: Request) -> Response:
        return _json(whole_machine_of(self._board.latest.topology))

    async def _container(self, request: Request) -> Response:
        world = self._board.latest
        return _json(one(world, request.path_params["container"], self._deadlines.of(world)))

    async def _events(self, _: Request) -> Response:
        if self._listeners >= MOST_LISTENERS:
            raise Declined(503, f"{MOST_LISTENERS} clients follow events already")
        return _Events(self._board, self._clock, self._listening)

    def _listening(self, change: int) -> None:
        self._listeners += change

    # What is asked for.

    async def _resize(self, request: Request) -> Response:
        asked = parsed(await _body(request), ResizeBody)
        key = found(self._board.latest, request.path_params["container"]).key
        world = await self._requests.resize(key, asked.cpus)
        return _json(sizing(world, key, self._deadlines.of(world)))

    async def _ack(self, request: Request) -> Response:
        asked = parsed(await _body(request), AckBody)
        key = found(self._board.latest, request.path_params["container"]).key
        world = await self._requests.acknowledge(key, asked.number)
        return _json(sizing(world, key, self._deadlines.of(world)))

    async def _defragment(self, request: Request) -> Response:
        parsed(await _body(request), _NoBody)
        before, after = await self._requests.defragment()
        return _json(defragmented(before, after))

    async def _start(self, request: Request) -> Response:
        assert self._starts is not None, "else there is no such route"
        return _json(await self._starts.ask(parsed(await _body(request, MAX_QUESTION), StartBody)))


def may_ask(route: Route, reach: Access) -> bool:
    """Whether this route is there on a socket of this reach."""
    if reach is Access.METRICS:
        return route.path in _FIGURES
    return reach is Access.ALL or "GET" in (route.methods or ())


async def serve_api(listener: socket.socket, api: Api, log: Log, tcp: TcpListener | None = None) -> None:
    """Serve the API on a socket that listens already, and what may be asked there over TCP, until cancelled."""
    config = Config()
    config.errorlog = None
    config.include_server_header = False
    config.logger_class = lambda config: _Complaints(config, log)  # type: ignore[assignment] # it is only called
    async with trio.open_nursery() as nursery:
        nursery.start_soon(api.count)
        nursery.start_soon(serve_connections, listener, api.app(), config, log)
        if tcp is not None:
            log.info("also serving over TCP", address=tcp.address, what=tcp.reach.value)
            nursery.start_soon(serve_connections, tcp.socket, api.app(tcp.reach), config, log)


class _Events(StreamingResponse):
    """Server-sent events; `listening` is told +1 and -1."""

    def __init__(self, board: Board, clock: Callable[[], datetime], listening: Callable[[int], None]) -> None:
        super().__init__(
            _ChangeStream(board, clock), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )
        self._listening = listening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._listening(1)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._listening(-1)


class _ChangeStream:
    """What changed, as events, for ever. An iterator: whoever leaves it half-way leaves nothing behind."""

    def __init__(self, board: Board, clock: Callable[[], datetime]) -> None:
        self._board = board
        self._clock = clock
        self._worlds = board.worlds()
        self._before: World | None = None

    def __aiter__(self) -> _ChangeStream:
        return self

    async def __anext__(self) -> bytes:
        if self._before is None:
            self._before = self._board.latest
            return b": following\n\n"
        while True:
            with trio.move_on_after(ALIVE_SECONDS) as waiting:
                await anext(self._worlds)
                await trio.sleep(EVENT_PAUSE)
            before, self._before = self._before, self._board.latest
            at = self._clock()
            if told := b"".join(event(line, at) for line in news(before, self._before)):
                return told
            if waiting.cancelled_caught:
                return b": alive\n\n"


class _NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `defragment` is asked: nothing more."""


class _Complaints(Logger):
    """hypercorn's log, as lines of ours: only what went wrong."""

    def __init__(self, config: Config, log: Log) -> None:
        super().__init__(config)
        self._ours = log

    async def exception(self, message: str, *args: Any, **kwargs: Any) -> None:
        del message, args, kwargs
        self._ours.error("the API failed to answer", trace=traceback.format_exc())


def _json(value: object, status: int = 200) -> Response:
    return Response(codec.encode(value) + b"\n", status_code=status, media_type="application/json")


async def _body(request: Request, most: int = MAX_BODY) -> bytes:
    content = b""
    try:
        async with aclosing(request.stream()) as chunks:
            async for chunk in chunks:
                content += chunk
                if len(content) > most:
                    raise Declined(413, f"the body has more than {most} bytes")
    except ClientDisconnect:
        raise Declined(400, "the body ended before it was whole") from None
    return content


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, Declined)
    return _json({"error": str(error)}, error.status)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reasons = {404: "there is no such route", 405: "this route does not take this method"}
    made = _json({"error": reasons.get(error.status_code, error.detail)}, error.status_code)
    made.headers.update(error.headers or {})
    return made


async def _not_here(request: Request, error: Exception) -> Response:
    made = await _http_error(request, error)
    if made.status_code in (404, 405):
        made.body = codec.encode({"error": "this is not available over TCP: ask on the daemon's Unix socket"}) + b"\n"
        made.headers["content-length"] = str(len(made.body))
    return made


class _OnlyByAddress:
    """Answers only who asks by an address, or localhost: a page in a browser of this host, whose name was made to point
    here (DNS rebinding), would ask by that name.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_address(dict(scope["headers"]).get(b"host", b"")):
            refused = _json({"error": "ask by the address, or by localhost"}, 400)
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_address(host: bytes) -> bool:
    name = re.sub(rb":\d{1,5}$", b"", host).strip(b"[]").decode("latin-1")
    if name in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _failure(_: Request, error: Exception) -> Response:
    del error
    return _json({"error": "the sidecar failed to answer: its log says why"}, 500)
