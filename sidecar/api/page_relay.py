"""The page for one person: its files, and what it asks of the daemon, passed on to the daemon's Unix socket.

The user of the command may ask the daemon anything; the link only lets its reader look. So a listener on the loopback
address, which every user of the host can reach, demands the token of the link, and has the page's routes and no other.

1. The token is the first part of each path. It is compared in constant time.
2. A request is passed on as HTTP/1.0, so that the end of an answer is the end of the connection.
3. The files come from this program, not from the daemon: the page is there while no daemon is, and says so.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from urllib.parse import quote

import trio

from sidecar.api.browsers import Visitor
from sidecar.api.connections import serve_connections
from sidecar.api.documents import Declined
from sidecar.api.page_files import PageFiles
from sidecar.api.routing import JSON, Answer, Following, Question, Route, RouteTable
from sidecar.api.tcp_listener import Access
from sidecar.log import Log

ASKED: Final = ("/v1/history", "/v1/plan", "/v1/cpus/{cpu}", "/v1/containers/{container}/explanation")
"""What the page asks, apart from following."""

FOLLOWED: Final = "/v1/live"

ANSWER_SECONDS: Final = 30.0
"""How long the daemon may take for an answer, or the beginning of a stream."""

MOST_FOLLOWING: Final = 16
"""Pages at once, as the daemon has places for them."""

_CHUNK: Final = 64 * 1024
_MOST_HEAD: Final = 16 * 1024
_MOST_ANSWER: Final = 64 * 1024 * 1024


class TokenTable(RouteTable, frozen=True):
    """Routes below a path whose first part is the token."""

    token: str = ""

    def find(self, method: str, target: str, host: str, visitor: Visitor = Visitor()) -> tuple[Route, str]:  # noqa: B008  # a frozen value
        """Return the requested route below the token. Raise Declined: also 403 without it."""
        token, slash, rest = target.removeprefix("/").partition("/")
        # Also of an absolute target, which no browser sends here: its first part is no token.
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            raise Declined(403, "this needs the link that `cpuset-sidecar page` printed, whole")
        return RouteTable.find(self, method, slash + rest, host, visitor)


async def serve_page(listener: socket.socket, token: str, daemon: str, log: Log) -> None:
    """Serve the page on this listener until cancelled, with what the daemon behind this Unix socket answers."""
    page = PageFiles()
    crowded = f"{MOST_FOLLOWING} pages are open already"
    follow = Route("GET", FOLLOWED, partial(_followed, daemon), places=MOST_FOLLOWING, crowded=crowded, yields=True)
    routes = (
        Route("GET", "/", page.html),
        Route("GET", "/page.css", page.css),
        Route("GET", "/page.js", page.js),
        follow,
        *(Route("GET", path, _relayed(daemon, path)) for path in ASKED),
    )
    await serve_connections(listener, TokenTable(routes, Access.READ, token=token), log)


def _relayed(daemon: str, path: str) -> Callable[[Question], Awaitable[Answer]]:
    async def answer(question: Question) -> Answer:
        with trio.move_on_after(ANSWER_SECONDS):
            stream, status, rest = await _asked(daemon, path, question)
            content = bytearray(rest)
            async with stream:
                async for part in _Parts(stream, b""):
                    content += part
                    if len(content) > _MOST_ANSWER:
                        raise Declined(502, "the daemon's answer has no end")
            return Answer(bytes(content), status, JSON)
        raise _silent()

    return answer


async def _followed(daemon: str, question: Question) -> Following:
    with trio.move_on_after(ANSWER_SECONDS):
        stream, status, rest = await _asked(daemon, FOLLOWED, question)
        if status != 200:
            await trio.aclose_forcefully(stream)
            raise Declined(503, "the daemon has no place for one more page")
        return Following(_Parts(stream, rest), "text/event-stream; charset=utf-8", stream.socket.close)
    raise _silent()


async def _asked(daemon: str, path: str, question: Question) -> tuple[trio.SocketStream, int, bytes]:
    """Send a request on. Return the connection, the status, and what came of the content already. Raise Declined."""
    named = quote(question.container, safe="")
    target = path.replace("{container}", named).replace("{cpu}", named)
    if question.query:
        target += f"?{question.query}"
    last = f"last-event-id: {question.last_event}\r\n" if question.last_event else ""
    try:
        stream = await trio.open_unix_socket(daemon)
    except OSError as error:
        raise Declined(503, "no daemon is running there") from error
    try:
        await stream.send_all(f"GET {target} HTTP/1.0\r\nhost: localhost\r\n{last}\r\n".encode("latin-1"))
        head = await _head(stream)
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(stream)
        raise _broken_off() from error
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    head, _, rest = head.partition(b"\r\n\r\n")
    return stream, int(head.split()[1]), rest


async def _head(stream: trio.SocketStream) -> bytes:
    """Return the head of an answer, and what came with it. Raise Declined if it does not end."""
    head = b""
    while b"\r\n\r\n" not in head:
        part = await stream.receive_some(_CHUNK)
        if not part or len(head) > _MOST_HEAD:
            raise _broken_off()
        head += part
    return head


def _broken_off() -> Declined:
    return Declined(502, "the daemon broke off its answer")


def _silent() -> Declined:
    return Declined(504, f"the daemon did not answer within {ANSWER_SECONDS:g} s")


class _Parts:
    """The parts of a stream as they come; the first may be there already."""

    def __init__(self, stream: trio.SocketStream, first: bytes) -> None:
        self._stream = stream
        self._first = first

    def __aiter__(self) -> _Parts:
        return self

    async def __anext__(self) -> bytes:
        first, self._first = self._first, b""
        try:
            part = first or bytes(await self._stream.receive_some(_CHUNK))
        except trio.BrokenResourceError:
            part = b""
        if not part:
            raise StopAsyncIteration
        return part
