"""The end of a silent stream: its reader is woken when the connection ends, instead of asking now and then.

aiohttp closes a connection on which it cannot understand a chunk, and does not always wake the reader that waits for
more (3.14; tests/engines/docker/test_docker_streams.py). It tells of the end in a future, if that is asked for before;
so the stream is asked for its connection every few seconds as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

CHECK_SECONDS: Final = 5.0
"""How often a silent stream is asked for its connection. One that ends before the future can be asked for wakes no
reader: of 96 that were garbled at once, two.
"""

_CLOSED: Final = "its connection was closed"


class Content(Protocol):
    """`aiohttp.StreamReader`."""

    async def readany(self) -> bytes:
        """Return what comes next, b"" at the end."""

    def is_eof(self) -> bool:
        """Return whether the end has come."""

    def exception(self) -> Any:
        """Return the error that ended it, None without one."""

    def set_exception(self, exc: BaseException) -> None:
        """End it by an error, which its reader gets."""


def wake_at_the_end(content: Content, closed: asyncio.Future[None] | None) -> None:
    """Have the reader of `content` fail when its connection ends, which is when `closed` is done; None if it has."""
    if closed is None:
        # Then nothing can be waited for (`next_chunk`).
        return

    def wake(ended: asyncio.Future[None]) -> None:
        if not ended.cancelled():
            # An error that nobody takes is logged.
            ended.exception()
        if not content.is_eof() and content.exception() is None:
            content.set_exception(ConnectionResetError(_CLOSED))

    closed.add_done_callback(wake)


async def next_chunk(content: Content, has_ended: Callable[[], bool]) -> bytes:
    """Return what comes next on a stream, b"" at its end. Raise ConnectionResetError where it has no connection, which
    `has_ended` tells if nothing else does.
    """
    while True:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    return await content.readany()
        except RuntimeError as error:
            # aiohttp's own, where the connection ended since the last chunk.
            raise ConnectionResetError(_CLOSED) from error
        if has_ended():
            raise ConnectionResetError(_CLOSED)
