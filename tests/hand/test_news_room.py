"""News from a thread to a task."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from sidecar.hand import news_room
from sidecar.hand.news_room import NewsRoom
from sidecar.ports import GroupGone, HandNews, NewsLost

pytestmark = pytest.mark.trio


def gone(number: int) -> GroupGone:
    """Return one of many news."""
    return GroupGone(str(number), "")


async def test_all_news_arrive_in_order() -> None:
    """However the thread and the task interleave."""
    room, found = NewsRoom(), list[HandNews]()

    def tell() -> None:
        for number in range(2000):
            room.add(gone(number))

    thread = threading.Thread(target=tell)
    thread.start()
    while len(found) < 2000:
        found += await room.wait()
    thread.join()
    room.close()
    assert found == [gone(number) for number in range(2000)]


async def test_too_many_news_become_one() -> None:
    room = NewsRoom()
    for number in range(news_room.MOST_NEWS + 1):
        room.add(gone(number))
    assert await room.wait() == (NewsLost(), gone(news_room.MOST_NEWS))
    room.close()


async def test_a_task_that_waits_learns_that_it_is_closed() -> None:
    room = NewsRoom()
    closed = False

    async def wait() -> None:
        nonlocal closed
        try:
            await room.wait()
        except trio.ClosedResourceError:
            closed = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        room.close()
        room.close()
        room.add(gone(1))
    assert closed
