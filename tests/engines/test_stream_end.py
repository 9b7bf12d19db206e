"""A reader is woken by the end of its connection: at once, or by asking where no end is told; nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from sidecar.engines import stream_end
from sidecar.engines.stream_end import next_chunk, wake_at_the_end


class Deaf:
    """A stream whose reader nothing wakes when its connection ends, as one of aiohttp with a chunk that is none."""

    def __init__(self) -> None:
        self.waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.is_connected = True
        self.has_ended = False

    async def readany(self) -> bytes:
        if not self.is_connected:
            raise RuntimeError("Connection closed.")
        return await asyncio.shield(self.waiting)

    def is_eof(self) -> bool:
        return self.has_ended

    def exception(self) -> BaseException | None:
        return self.waiting.exception() if self.waiting.done() and not self.has_ended else None

    def set_exception(self, exc: BaseException) -> None:
        self.waiting.set_exception(exc)


@pytest.mark.parametrize("error", [None, ConnectionError("reset")])
def test_the_reader_of_a_closed_connection_fails_at_once(error: Exception | None) -> None:
    async def read() -> None:
        content, closed = Deaf(), asyncio.get_running_loop().create_future()
        wake_at_the_end(content, closed)
        reader = asyncio.create_task(next_chunk(content, lambda: False))
        await asyncio.sleep(0)
        assert not reader.done()
        closed.set_exception(error) if error else closed.set_result(None)
        with pytest.raises(ConnectionResetError, match="its connection was closed"):
            await asyncio.wait_for(reader, 5)

    asyncio.run(read())


def test_one_that_ended_before_cannot_be_waited_for() -> None:
    async def read() -> None:
        content = Deaf()
        content.is_connected = False
        wake_at_the_end(content, None)
        with pytest.raises(ConnectionResetError, match="its connection was closed"):
            await next_chunk(content, lambda: False)

    asyncio.run(read())


def test_what_has_ended_by_itself_keeps_its_end() -> None:
    """A stream that came to its end, as an HTTP answer does before its connection is closed."""

    async def read() -> None:
        content, closed = Deaf(), asyncio.get_running_loop().create_future()
        wake_at_the_end(content, closed)
        content.has_ended = True
        content.waiting.set_result(b"")
        closed.set_result(None)
        await asyncio.sleep(0.001)
        assert await next_chunk(content, lambda: False) == b""

    asyncio.run(read())


def test_an_end_that_nothing_tells_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent stream goes on while it has its connection, and what comes later is read."""
    monkeypatch.setattr(stream_end, "CHECK_SECONDS", 0.01)

    async def read() -> None:
        content, asked = Deaf(), asyncio.Event()

        def has_ended() -> bool:
            asked.set()
            return False

        reader = asyncio.create_task(next_chunk(content, has_ended))
        for _ in range(3):
            await asyncio.wait_for(asked.wait(), 5)
            asked.clear()
        assert not reader.done()
        content.waiting.set_result(b"late")
        assert await asyncio.wait_for(reader, 5) == b"late"
        with pytest.raises(ConnectionResetError, match="its connection was closed"):
            await asyncio.wait_for(next_chunk(Deaf(), lambda: True), 5)

    asyncio.run(read())
