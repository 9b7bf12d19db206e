"""The API over HTTP: its routes and their answers.

Every route reads the latest World once and answers from it; changes go to the allocator (`requests`). Errors are JSON,
`{"error": reason}`. No part of a request reaches a path, a command or the log.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec
import trio

from sidecar.api.change_record import ChangeRecord
from sidecar.api.connections import serve_connections
from sidecar.api.documents import (
    AckBody,
    Declined,
    ResizeBody,
    Vouching,
    defragmented,
    found,
    one,
    parsed,
    sizing,
)
from sidecar.api.live_document import LiveDocument
from sidecar.api.metric_counts import MetricCounts
from sidecar.api.page_routes import EVENT_STREAM, PageRoutes, Tell
from sidecar.api.requests import Requests
from sidecar.api.routing import Answer, Following, Question, Route, RouteTable, as_json, listed, within
from sidecar.api.start_route import MAX_BODY as MAX_QUESTION
from sidecar.api.start_route import StartBody, Starts
from sidecar.api.tcp_listener import Access, TcpListener
from sidecar.board import Board
from sidecar.decide.facts import Fact
from sidecar.log import Log
from sidecar.status.last_state import reading_of
from sidecar.status.machine_levels import whole_machine_of
from sidecar.status.present_status import PresentStatus

Expose = Callable[[str], tuple[bytes, str]]
"""`Metrics.exposed`: from a header `Accept` to the metrics, and their content type."""

MOST_FOLLOWERS: Final = 16
"""Clients of one listener that follow events at once."""

MOST_ASKING: Final = 1024
"""Starts that are asked for at once. Each is decided at once; only those that must wait count as held."""

ALIVE_SECONDS: Final = 15.0
"""How often a client that follows events is sent something, so that a dead connection is noticed."""


class Api:
    """The app over one board. `run` counts what only a reader of every world can count."""

    def __init__(
        self,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        present: PresentStatus,
        clock: Callable[[], datetime],
        *,
        starts: Starts | None = None,
        record: ChangeRecord | None = None,
        counts: MetricCounts | None = None,
        tell: Tell | None = None,
    ) -> None:
        """Serve this board; `starts` takes the questions of OCI runtimes, None if this API takes none. `record` has
        what changed before, `counts` what was counted before, and `tell` makes the projection of a container.
        """
        self._board = board
        self._starts = starts
        self._requests = Requests(board, outbox)
        self._present = present
        self._clock = clock
        self.counts = counts or MetricCounts(board.latest)
        self._expose: Expose | None = None
        self.record = record or ChangeRecord(board, clock)
        self.live = LiveDocument(board, present, clock)
        page = PageRoutes(board, present, clock, self.record, self.live, tell)
        followers = f"{MOST_FOLLOWERS} clients follow events already"
        starting = f"not started: {MOST_ASKING} starts are asked for at once"
        self.routes = (
            Route("GET", "/healthz", self._health),
            Route("GET", "/readyz", self._readiness),
            Route("GET", "/metrics", self._exposition),
            Route("GET", "/v1", self._list),
            Route("GET", "/v1/state", self._state),
            Route("GET", "/v1/status", self._status),
            Route("GET", "/v1/topology", self._topology),
            Route("GET", "/v1/events", self._events, places=MOST_FOLLOWERS, crowded=followers, yields=True),
            *page.routes,
            Route("GET", "/v1/containers/{container}", self._container),
            Route("POST", "/v1/containers/{container}/resize", self._resize),
            Route("POST", "/v1/containers/{container}/ack", self._ack),
            Route("POST", "/v1/containers/{container}/release", self._release),
            Route("POST", "/v1/defragment", self._defragment),
            *([Route("POST", "/v1/starts", self._start, MAX_QUESTION, MOST_ASKING, starting)] if starts else ()),
        )

    async def count(self) -> None:
        """Count for metrics, indefinitely."""
        await self.counts.keep(self._board)

    def table(self, reach: Access = Access.ALL) -> RouteTable:
        """Return the routes of a listener with this reach."""
        there = tuple(within(self.routes, reach))
        return RouteTable(there, reach, tuple(route for route in self.routes if route not in there))

    # The present state.

    async def _health(self, _: Question) -> Answer:
        return as_json({"status": "ok", "problems": list(self._board.problems.values())})

    async def _readiness(self, _: Question) -> Answer:
        world = self._board.latest
        if not world.is_ready:
            raise Declined(503, "not everything was looked at since the engine was reached")
        waits_for = sorted(name for name, each in world.contacts.items() if not each.is_ready)
        return as_json({"status": "ready", **({"waits_for": waits_for} if waits_for else {})})

    async def _exposition(self, question: Question) -> Answer:
        if self._expose is None:
            # In a thread: decisions go on meanwhile.
            self._expose = await trio.to_thread.run_sync(_exposure, self._board, self.counts)
        content, kind = self._expose(question.accept)
        return Answer(content, kind=kind, headers=(("vary", "accept"),))

    async def _list(self, _: Question) -> Answer:
        return as_json(listed(self.routes))

    async def _state(self, _: Question) -> Answer:
        return as_json(self._board.latest.state)

    async def _status(self, _: Question) -> Answer:
        vouching = self._vouching()
        told = msgspec.structs.replace(self._present.of(), updated_at=vouching.said_at)
        return as_json(reading_of(told, vouched=vouching.counts, outdated=vouching.is_outdated))

    def _vouching(self) -> Vouching:
        return Vouching.of(self._board.latest, self._board.vouched_at, self._clock())

    async def _topology(self, _: Question) -> Answer:
        return as_json(whole_machine_of(self._board.latest.topology))

    async def _container(self, question: Question) -> Answer:
        world = self._board.latest
        return as_json(one(world, question.container, self._present.deadlines.of(world), self._vouching()))

    async def _events(self, question: Question) -> Following:
        return Following(_ChangeStream(self.record, question.last_event), EVENT_STREAM)

    # Requests.

    async def _resize(self, question: Question) -> Answer:
        asked = parsed(question.body, ResizeBody)
        key = found(self._board.latest, question.container).key
        world = await self._requests.resize(key, asked.cpus)
        return as_json(sizing(world, key, self._present.deadlines.of(world)))

    async def _ack(self, question: Question) -> Answer:
        asked = parsed(question.body, AckBody)
        key = found(self._board.latest, question.container).key
        world = await self._requests.acknowledge(key, asked.number)
        return as_json(sizing(world, key, self._present.deadlines.of(world)))

    async def _release(self, question: Question) -> Answer:
        parsed(question.body, _NoBody)
        key = found(self._board.latest, question.container).key
        world = await self._requests.give_up(key, self._clock())
        if key not in world.containers:
            raise Declined(404, "it was removed in between")
        return as_json(one(world, key.id, self._present.deadlines.of(world), self._vouching()))

    async def _defragment(self, question: Question) -> Answer:
        parsed(question.body, _NoBody)
        before, after = await self._requests.defragment()
        return as_json(defragmented(before, after))

    async def _start(self, question: Question) -> Answer:
        assert self._starts is not None, "else there is no such route"
        return as_json(await self._starts.ask(parsed(question.body, StartBody)))


async def serve_api(listener: socket.socket, api: Api, log: Log, tcp: TcpListener | None = None) -> None:
    """Serve the API on a listening socket, and its permitted part over TCP, until cancelled."""
    async with trio.open_nursery() as nursery:
        if not api.counts.is_kept:
            nursery.start_soon(api.count)
        nursery.start_soon(api.live.keep, log)
        if not api.record.is_kept:
            nursery.start_soon(api.record.keep, log)
        nursery.start_soon(serve_connections, listener, api.table(), log, api.table(Access.GROUP))
        if tcp is not None:
            log.info("also serving over TCP", address=tcp.address, what=tcp.reach.value)
            nursery.start_soon(serve_connections, tcp.socket, api.table(tcp.reach), log)


def _exposure(board: Board, counts: MetricCounts) -> Expose:
    # Only here: where nobody asks for metrics, nobody pays for them.
    from sidecar.api.metrics import Metrics

    return Metrics(board, counts).exposed


class _ChangeStream:
    """Changes as events, indefinitely. An iterator: leaving it half-way leaves nothing to clean up."""

    def __init__(self, record: ChangeRecord, last_event: str) -> None:
        self._record = record
        self._next = record.from_id(last_event)
        self._is_begun = False

    def __aiter__(self) -> _ChangeStream:
        return self

    async def __anext__(self) -> bytes:
        if not self._is_begun:
            self._is_begun = True
            return b": following\n\n"
        with trio.move_on_after(ALIVE_SECONDS):
            while True:
                told, self._next = self._record.events(self._next)
                if told:
                    return told
                await self._record.wait()
        return b": alive\n\n"


class _NoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `defragment`: empty."""
