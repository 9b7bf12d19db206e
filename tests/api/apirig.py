"""The real API on a real socket, over a story with the real decisions; and clients of it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import trio

from sidecar.api.unix_socket import NAME, listening
from sidecar.api.web_app import Api, serve_api
from sidecar.board import Board
from sidecar.decide.facts import Fact, Purpose
from sidecar.decide.settings import PolicyName
from sidecar.log import Log
from sidecar.status.deadlines import Deadlines
from sidecar.status.present_status import PresentStatus
from tests.support.decide.stories import Story

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


MANUAL = {"cpuset.max": "3", "cpuset.scale": "manual"}


class Elastic(Story):
    """`batch` has 2 to 6 CPUs and all spare ones; `man` has 1, and 3 if resized."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"policy": PolicyName.DYNAMIC, **settings})
        self.batch = self.arrive("batch", 2, labels={"cpuset.max": "6"})
        self.settle()
        self.man = self.arrive("man", 1, labels=MANUAL)
        self.settle()
        for place in reversed(range(len(self.timers))):
            if self.timers[place].purpose is Purpose.COOLDOWN:
                self.time_out(place)


class Rig:
    """A served story. Nothing is decided before `deciding` is set; `asked` is what the allocator would have
    received.
    """

    def __init__(self, directory: Path, story: Story, inbox: int = 8) -> None:
        self.path = str(directory / NAME)
        self.directory = directory
        self.story = story
        self.board = Board(story.world)
        self.lines = StringIO()
        self.asked: list[Fact] = []
        self._outbox, self._inbox = trio.open_memory_channel[Fact](inbox)
        self.deciding = trio.Event()
        self.deciding.set()
        self.api = Api(self.board, self._outbox, PresentStatus(self.board, Deadlines(lambda: NOW)), clock=lambda: NOW)
        self.streams: list[trio.SocketStream] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Rig]:
        """Serve for the length of the block."""
        with listening(str(self.directory)) as listener:
            async with self._outbox, trio.open_nursery() as nursery:
                nursery.start_soon(self._decide)
                nursery.start_soon(serve_api, listener, self.api, Log(self.lines))
                try:
                    yield self
                finally:
                    nursery.cancel_scope.cancel()

    async def _decide(self) -> None:
        async for fact in self._inbox:
            self.asked.append(fact)
            await self.deciding.wait()
            self.story.feed(fact)
            self.board.post(self.story.world)

    def tell(self) -> None:
        """Post the present World of the story."""
        self.board.post(self.story.world)

    async def ask(self, method: str, route: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Send one request of a blocking client in a thread; return the status and the document."""
        status, content = await self.raw(method, route, body if isinstance(body, bytes) else _encoded(body), **headers)
        return status, json.loads(content)

    async def raw(self, method: str, route: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """Send the same; return the status and the bytes."""
        return await trio.to_thread.run_sync(partial(_blocking, self.path, method, route, body, headers))

    async def headers(self, port: int, route: str, **headers: str) -> dict[str, str]:
        """Ask over TCP; return the headers of the answer, by their names in lower case, and its status as `status`."""

        def blocking() -> dict[str, str]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            try:
                connection.request("GET", route, headers=headers)
                answer = connection.getresponse()
                answer.read()
                return {"status": str(answer.status), **{name.lower(): value for name, value in answer.getheaders()}}
            finally:
                connection.close()

        return await trio.to_thread.run_sync(blocking)

    async def send(self, request: bytes) -> trio.SocketStream:
        """Open a connection and send this on it."""
        stream = await trio.open_unix_socket(self.path)
        self.streams.append(stream)
        await stream.send_all(request)
        return stream

    async def close(self) -> None:
        """Close what `send` opened."""
        for stream in self.streams:
            await stream.aclose()


async def until(stream: trio.SocketStream, is_so: Callable[[bytes], bool]) -> bytes:
    """Read until the condition holds for what was read."""
    seen = b""
    with trio.fail_after(20):
        while not is_so(seen):
            chunk = await stream.receive_some(65536)
            assert chunk, seen
            seen += chunk
    return seen


def _encoded(body: object) -> bytes:
    return b"" if body is None else json.dumps(body).encode()


def _blocking(path: str, method: str, route: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("localhost", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.settimeout(20)
    try:
        connection.sock.connect(path)
        connection.request(method, route, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
