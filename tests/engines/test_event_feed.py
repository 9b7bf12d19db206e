"""The feed: bounded, in order, and explicit about losses."""

from __future__ import annotations

import threading

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from sidecar.engines.event_feed import Feed

GAP = -1


async def rest(feed: Feed[int]) -> list[int]:
    return [item async for item in feed]


@pytest.mark.trio
async def test_items_come_in_order_and_the_end_after_them() -> None:
    """Items that were pushed before the end are read before it."""
    feed = Feed(size=10, gap=GAP)
    for item in range(5):
        feed.push(item)
    feed.end(None)
    assert await rest(feed) == [0, 1, 2, 3, 4]


@pytest.mark.trio
async def test_the_writer_s_error_comes_each_time() -> None:
    """A second look at an ended stream does not hang."""
    feed: Feed[int] = Feed(size=10, gap=GAP)
    feed.end(ValueError("over"))
    for _ in range(2):
        with pytest.raises(ValueError, match="over"):
            await anext(feed)


@pytest.mark.trio
async def test_overflow_is_one_marker_where_something_is_missing() -> None:
    """Before and after the marker nothing is missing."""
    feed = Feed(size=3, gap=GAP)
    for item in range(10):
        feed.push(item)
    assert [await anext(feed) for _ in range(2)] == [0, 1]
    feed.push(10)
    feed.end(None)
    assert await rest(feed) == [2, GAP, 10]


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 5))
def test_nothing_is_lost_without_a_marker(moves: list[bool], size: int) -> None:
    """In any order of pushes and reads: two successive items were pushed in succession, or a gap is between them."""

    async def run() -> list[int]:
        feed = Feed(size=size, gap=GAP)
        got: list[int] = []
        pushed = 0
        for is_push in moves:
            if is_push:
                feed.push(pushed)
                pushed += 1
            elif len(feed):
                got.append(await anext(feed))
            assert len(feed) <= size + 1
        feed.end(None)
        return [*got, *(await rest(feed)), pushed]

    got = trio.run(run)
    was_gap, last = False, -1
    for item in got[:-1]:
        if item == GAP:
            assert not was_gap
            was_gap = True
            continue
        assert item > last if was_gap else item == last + 1
        was_gap, last = False, item
    assert was_gap or last == got[-1] - 1


@pytest.mark.trio
async def test_a_cancelled_reader_loses_nothing() -> None:
    """Cancelled while it waits, or with an item at hand."""
    feed = Feed(size=3, gap=GAP)
    with trio.move_on_after(0.01):
        await anext(feed)
    feed.push(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await anext(feed)
    feed.end(None)
    assert await rest(feed) == [1]


@pytest.mark.trio
async def test_another_thread_wakes_the_reader() -> None:
    """Every item of a busy writer arrives in bounded time."""
    feed = Feed(size=100_000, gap=GAP)

    def writes() -> None:
        for item in range(20_000):
            feed.push(item)
        feed.end(None)

    thread = threading.Thread(target=writes)
    thread.start()
    with trio.fail_after(20):
        assert await rest(feed) == list(range(20_000))
    thread.join()


def test_a_writer_that_outlives_trio_is_not_disturbed() -> None:
    """The asyncio side may push its last item when there is no reader any more."""

    async def make() -> Feed[int]:
        return Feed(size=1, gap=GAP)

    feed = trio.run(make)
    feed.push(1)
    feed.end(None)
    assert len(feed) == 1
