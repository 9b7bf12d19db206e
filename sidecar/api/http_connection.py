"""One connection of HTTP/1.1: h11 knows the protocol, trio moves the bytes.

h11 does no I/O: it turns received bytes into events, and events into bytes to send, and detects every breach of the
protocol. The resources of a client are bounded here:

1. A head is whole within `HEAD_SECONDS` of the end of the last answer, a body within `BODY_SECONDS`.
2. A client that hangs up while its answer is being made ends its request. Bytes that it sends ahead are kept, up to
   `AHEAD`.
3. An answer is taken within `SEND_SECONDS`, and so is each part of an endless one.
4. A connection that ends early is closed only after its client has had time to read why (RFC 9112, 9.6).
"""

from __future__ import annotations

import contextlib
import http
import traceback
from collections.abc import Callable
from email.utils import formatdate
from typing import Final

import h11
import trio

from sidecar.api.browsers import HEADERS, Visitor
from sidecar.api.documents import Declined
from sidecar.api.routing import MAX_BODY, Answer, Following, Question, Route, RouteTable, as_json, query_of, refusal
from sidecar.log import Log

HEAD_SECONDS: Final = 5.0
"""How long a client may take for the head of a request, and may stay connected without one."""

BODY_SECONDS: Final = 10.0
"""How long a client may take for a body: 128 KiB at most."""

SEND_SECONDS: Final = 10.0
"""How long a client may take to read an answer, or a part of an endless one."""

CLOSE_SECONDS: Final = 0.2
"""How long an answer may still take once its client sends nothing more, and its client may take to read the answer."""

MAX_HEAD: Final = 16 * 1024
"""Bytes of a head."""

AHEAD: Final = 16 * 1024
"""Bytes that a client may send while it is answered. More stay in the kernel, and hide a hang-up behind them."""

_CHUNK: Final = 16 * 1024

_BREACHES: Final = {431: f"the head has more than {MAX_HEAD} bytes", 501: "only chunked is known as transfer-encoding"}
"""The breaches that h11 distinguishes; all others are a 400."""


class HttpConnection:
    """A client's connection: its requests are answered one after the other."""

    def __init__(
        self,
        stream: trio.abc.HalfCloseableStream,
        table: RouteTable,
        is_crowded: Callable[[Route, str], bool],
        log: Log,
        peer: str = "",
    ) -> None:
        """Start with the client's turn. `is_crowded` tells whether a route has no place of its own for this peer."""
        self._stream = stream
        self._table = table
        self._is_crowded = is_crowded
        self._log = log
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._scope = trio.CancelScope()
        self.peer = peer
        self._is_head = False
        self._received = 0
        """Bytes of all requests so far."""
        self.waits_since: float | None = trio.current_time()
        """Since when it has been the client's turn; None while it is the server's."""
        self.route: Route | None = None
        """The route that is answering."""
        self.answers_since = 0.0
        """Since when it has been answering."""

    async def serve(self) -> None:
        """Answer until the client, the protocol or `end` ends it, and close."""
        try:
            with self._scope:
                try:
                    while await self._exchange():
                        self.route, self.waits_since = None, trio.current_time()
                except Exception:
                    # A bug in the sidecar ends this connection, not the daemon.
                    self._log.error("the API failed to answer", trace=traceback.format_exc())
                    if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                        await self._send_answer(
                            as_json({"error": "the sidecar failed to answer: its log says why"}, 500)
                        )
                await self._part()
        finally:
            await trio.aclose_forcefully(self._stream)

    def end(self) -> None:
        """Close the connection at once, at any point."""
        self._scope.cancel()

    async def _exchange(self) -> bool:
        """Read a request and answer it. Return whether another may follow."""
        try:
            head = await self._head()
            if head is None:
                return False
            answer = await self._answer(head)
        except h11.RemoteProtocolError as breach:
            broken = str(breach).partition(": bytearray")[0]
            reason = _BREACHES.get(breach.error_status_hint, f"this is not HTTP/1.1: {broken}")
            answer = refusal(Declined(breach.error_status_hint, reason))
        except Declined as declined:
            answer = refusal(declined)
        if answer is None:
            return False
        await self._send_answer(answer)
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _head(self) -> h11.Request | None:
        """Return the next request's head (1); None if none comes."""
        # An unreadable request is not a HEAD request, whatever the previous one was.
        self._is_head = False
        begins = self._understood
        with trio.move_on_after(HEAD_SECONDS):
            event = await self._event()
            if isinstance(event, h11.Request):
                self._is_head = event.method == b"HEAD"
                if self._understood - begins > MAX_HEAD:
                    # h11 bounds what it cannot understand yet: of a head that comes at once, nothing.
                    raise Declined(431, _BREACHES[431])
                return event
        return None

    @property
    def _understood(self) -> int:
        """How many bytes h11 has made events of."""
        return self._received - len(self._http.trailing_data[0])

    async def _answer(self, head: h11.Request) -> Answer | None:
        """Return the answer to a request; None if nothing remains to send. Raise Declined, h11.RemoteProtocolError."""
        if not head.http_version.startswith(b"1."):
            raise Declined(505, "only HTTP/1.1 is spoken here")
        headers = dict(head.headers)
        host = headers.get(b"host", b"").decode("latin-1")
        target = head.target.decode()
        try:
            route, container = self._table.find(head.method.decode(), target, host, Visitor.of(headers))
        except Declined:
            if not self._http.they_are_waiting_for_100_continue:
                await self._body(headers, MAX_BODY)  # So that the next request can be read.
            raise
        sent = (headers.get(name, b"").decode("latin-1") for name in (b"last-event-id", b"if-none-match", b"accept"))
        question = Question(container, await self._body(headers, route.most_body), query_of(target), *sent)
        if route.places and self._is_crowded(route, self.peer):
            raise Declined(503, route.crowded)
        self.route, self.waits_since, self.answers_since = route, None, trio.current_time()
        answer: Answer | None = None
        async with trio.open_nursery() as exchange:
            exchange.start_soon(self._watch, exchange.cancel_scope)
            try:
                made = await route.answer(question)
            except Declined as declined:
                made = refusal(declined)
            if isinstance(made, Following):
                await self._follow(made)
            else:
                answer = made
            exchange.cancel_scope.cancel()
        return answer

    async def _body(self, headers: dict[bytes, bytes], most: int) -> bytes:
        """Return the body of the request (1). Raise Declined if it is too long or too late."""
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise Declined(400, "a body has one length: content-length or transfer-encoding")
        too_long = Declined(413, f"the body has more than {most} bytes")
        if int(headers.get(b"content-length", b"0")) > most:
            raise too_long
        with trio.move_on_after(BODY_SECONDS):
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            content = bytearray()
            while isinstance(event := await self._event(), h11.Data):
                content += event.data
                if len(content) > most:
                    raise too_long
            return bytes(content)
        raise Declined(408, f"the body was not whole within {BODY_SECONDS:g} s")

    async def _watch(self, exchange: trio.CancelScope) -> None:
        """End the exchange soon after its client is gone (2)."""
        while True:
            ahead, has_ended = self._http.trailing_data
            if has_ended:
                break
            if len(ahead) > AHEAD:
                return
            await self._receive()
        exchange.deadline = trio.current_time() + CLOSE_SECONDS

    async def _follow(self, following: Following) -> None:
        """Send one part after the other, until the client leaves."""
        try:
            await self._send(_response(200, following.kind, ("cache-control", "no-store")))
            if self._is_head:
                await self._send(h11.EndOfMessage())
                return
            async for part in following.parts:
                await self._send(h11.Data(part))
        finally:
            following.close()

    async def _send_answer(self, answer: Answer) -> None:
        self.waits_since = trio.current_time()
        # 304 has no content, and a length would be that of the content that the client has (RFC 9110, 8.6).
        more = [] if answer.status == http.HTTPStatus.NOT_MODIFIED else [("content-length", str(len(answer.content)))]
        more += answer.headers
        if answer.allow:
            more.append(("allow", answer.allow))
        if self._http.their_state in (h11.IDLE, h11.SEND_BODY, h11.ERROR):
            more.append(("connection", "close"))
        body = [] if self._is_head else [h11.Data(answer.content)]
        await self._send(_response(answer.status, answer.kind, *more), *body, h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        """Send, or end the connection (3)."""
        content = b"".join(self._http.send(event) or b"" for event in events)
        with trio.move_on_after(SEND_SECONDS), contextlib.suppress(trio.BrokenResourceError):
            await self._stream.send_all(content)
            return
        await self._end()

    async def _event(self) -> object:
        """Return what the client sends next, as h11 understands it. Raise h11.RemoteProtocolError."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await self._receive()
        return event

    async def _receive(self) -> None:
        """Receive, or end the connection."""
        with contextlib.suppress(trio.BrokenResourceError):
            received = bytes(await self._stream.receive_some(_CHUNK))
            self._received += len(received)
            self._http.receive_data(received)
            return
        await self._end()

    async def _part(self) -> None:
        """Wait briefly for the client to close (4)."""
        with trio.move_on_after(CLOSE_SECONDS), contextlib.suppress(trio.BrokenResourceError):
            await self._stream.send_eof()
            while await self._stream.receive_some(_CHUNK):
                pass

    async def _end(self) -> None:
        """End by cancellation, which unwinds everything that is open here."""
        self.end()
        await trio.lowlevel.checkpoint()


def _response(status: int, kind: str, *more: tuple[str, str]) -> h11.Response:
    headers = {"date": formatdate(usegmt=True), "content-type": kind, **dict(HEADERS), **dict(more)}
    return h11.Response(status_code=status, headers=list(headers.items()), reason=http.HTTPStatus(status).phrase)
