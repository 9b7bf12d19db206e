"""Feed: a bounded stream from the asyncio thread into one trio task, whose overflow is one marker.

The writer never waits: an engine that has to wait for a slow reader delays every container on the host (Docker 20.10:
each operation takes 93 ms longer) and then drops events silently. The buffer is bounded, and what does not fit is
replaced by one marker at the exact place where something is missing.

The deque's own operations are atomic. Only the writer changes `_is_full`, only the reader removes items; so the buffer
holds at most `size` items and one marker.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import trio

T = TypeVar("T")


class Feed(Generic[T]):
    """Make it in the trio task that will read it; `push` and `end` belong to the other thread."""

    def __init__(self, *, size: int, gap: T) -> None:
        """Buffer `size` items; `gap` is the marker for "some were lost here"."""
        self._size = size
        self._gap = gap
        self._items: deque[T] = deque()
        self._is_full = False
        self._ending: BaseException | None = None
        self._has_ended = False
        self._news = trio.Event()
        self._trio = trio.lowlevel.current_trio_token()

    def push(self, item: T) -> None:
        """Hand one item over, from the writer's thread; never waits."""
        if len(self._items) < self._size:
            self._is_full = False
            self._items.append(item)
        elif not self._is_full:
            self._is_full = True
            self._items.append(self._gap)
        self._wake()

    def end(self, error: BaseException | None) -> None:
        """End the stream. The reader gets the buffered items, and then `error`, or a normal end."""
        self._ending = error
        self._has_ended = True
        self._wake()

    def __len__(self) -> int:
        """Return the number of buffered items, at most `size` and a marker."""
        return len(self._items)

    def __aiter__(self) -> Feed[T]:
        return self

    async def __anext__(self) -> T:
        """Return the next item, in order. After the end, raise the writer's error on every call."""
        if self._items:
            await trio.lowlevel.checkpoint()  # before an item is taken, so that a cancelled reader loses none
        while not self._items:
            # Check the end before the items once more: the writer pushes first and ends after.
            if self._has_ended and not self._items:
                await trio.lowlevel.checkpoint()
                raise self._ending if self._ending is not None else StopAsyncIteration
            self._news = trio.Event()
            await self._news.wait()
        return self._items.popleft()

    def _wake(self) -> None:
        try:
            self._trio.run_sync_soon(self._set, idempotent=True)
        except trio.RunFinishedError:
            return  # no reader is left

    def _set(self) -> None:
        self._news.set()
