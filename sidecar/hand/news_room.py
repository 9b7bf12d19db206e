"""News from the watcher's thread to one trio task: a bounded queue, and a descriptor that wakes the task."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Final

import trio

from sidecar.ports import HandNews, NewsLost

MOST_NEWS: Final = 20_000
"""Some seconds of births on the largest host. What does not fit is replaced by one NewsLost."""


class NewsRoom:
    """`add` may be called from any thread; `wait` from one trio task at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._news: list[HandNews] = []
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def add(self, news: HandNews) -> None:
        """Append news, and wake the task if it may wait. After `close` they are dropped."""
        with self._lock:
            if self._bell < 0:
                return
            if len(self._news) >= MOST_NEWS:
                self._news = [NewsLost()]
            self._news.append(news)
            if len(self._news) == 1:
                os.eventfd_write(self._bell, 1)

    async def wait(self) -> tuple[HandNews, ...]:
        """Wait for news, and return all there are."""
        await trio.lowlevel.wait_readable(self._bell)
        with self._lock:
            os.eventfd_read(self._bell)
            found, self._news = self._news, []
        return tuple(found)

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        with self._lock:
            if self._bell >= 0:
                with suppress(RuntimeError):
                    # There is no trio, so no task waits.
                    trio.lowlevel.notify_closing(self._bell)
                os.close(self._bell)
                self._bell = -1
