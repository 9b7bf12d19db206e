"""The room: asyncio functions called from trio tasks."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
import trio

from sidecar.engines.asyncio_room import open_room
from sidecar.failures import EngineUnavailable


@pytest.mark.trio
async def test_a_result_and_an_error_come_back_as_they_are() -> None:
    """No wrapper and no group, so that `except` matches."""

    async def doubled(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    async def fails() -> None:
        raise EngineUnavailable("gone")

    async with open_room() as room:
        assert await room.call(doubled, 21) == 42
        with pytest.raises(EngineUnavailable, match="gone"):
            await room.call(fails)
        assert await room.call(doubled, 4) == 8


@pytest.mark.trio
async def test_a_cancelled_call_waits_for_its_cleanup() -> None:
    """When the trio task goes on, no part of the call is running any more."""
    done: list[str] = []

    async def works() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            done.append("cleaned up")

    async with open_room() as room:
        with trio.move_on_after(0.05) as scope:
            await room.call(works)
        assert scope.cancelled_caught
        assert done == ["cleaned up"]


@pytest.mark.trio
async def test_a_result_that_comes_in_spite_of_a_cancellation_counts() -> None:
    """An order that was carried out must not count as lost."""

    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "done"

    got = ""
    async with open_room() as room:
        with trio.move_on_after(0.05):
            got = await room.call(stubborn)
    assert got == "done"


@pytest.mark.trio
async def test_a_call_that_cannot_even_begin_is_an_error() -> None:
    """It does not hang: a mistake in the program surfaces in the trio task."""

    async def takes_none() -> None:
        await asyncio.sleep(0)

    async with open_room() as room:
        with pytest.raises(TypeError), trio.fail_after(20):
            await room.call(takes_none, 1)  # type: ignore[arg-type]


@pytest.mark.trio
async def test_a_call_that_is_cancelled_in_the_room_is_unavailable() -> None:
    """trio did not ask for it: asyncio's own cancellation does not leak into trio."""

    async def cancelled() -> None:
        raise asyncio.CancelledError

    async with open_room() as room:
        with pytest.raises(EngineUnavailable, match="was closed"):
            await room.call(cancelled)


@pytest.mark.trio
async def test_many_calls_run_at_once() -> None:
    """One slow answer holds up no other call."""

    async def gathering() -> asyncio.Barrier:
        return asyncio.Barrier(20)

    async with open_room() as room:
        barrier = await room.call(gathering)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(room.call, barrier.wait)


@pytest.mark.trio
async def test_blocking_code_in_the_room_does_not_stop_trio() -> None:
    """If asyncio code hangs, trio still sees its signals and deadlines."""
    has_ticked = threading.Event()

    async def blocks() -> bool:
        return has_ticked.wait(30)  # The very fault: it blocks the room's thread.

    async def tick() -> None:
        for _ in range(5):
            await trio.sleep(0.01)
        has_ticked.set()

    async with open_room() as room, trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        assert await room.call(blocks)


@pytest.mark.trio
async def test_the_body_s_error_comes_out_and_the_thread_is_joined() -> None:
    """Also with a task left behind in the room: it is cancelled with the loop."""
    left: list[asyncio.Task[None]] = []

    async def leaves_a_task() -> None:
        left.append(asyncio.create_task(asyncio.sleep(60)))

    async def body() -> None:
        async with open_room() as room:
            await room.call(leaves_a_task)
            raise EngineUnavailable("ours")

    with pytest.raises(EngineUnavailable, match="ours"):
        await body()
    assert left[0].cancelled()
    assert "engine-asyncio" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.trio
async def test_a_cancelled_room_is_left_in_order() -> None:
    """Shutdown in the middle of a call: the call is cancelled, the thread joined."""

    async def sleeps() -> None:
        await asyncio.sleep(60)

    with trio.move_on_after(0.1):
        async with open_room() as room:
            await room.call(sleeps)
    assert "engine-asyncio" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.trio
async def test_a_room_that_is_cancelled_before_it_opens_begins_no_thread() -> None:
    """Nothing would end it."""
    with trio.CancelScope() as scope:
        scope.cancel()
        async with open_room():
            pass
    assert scope.cancelled_caught
    assert "engine-asyncio" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.trio
async def test_a_thread_that_cannot_run_a_loop_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as where descriptors have run out. Nobody waits for it for ever."""
    monkeypatch.setattr(asyncio.events, "new_event_loop", _no_loop)
    with pytest.raises(OSError, match="too many"), trio.fail_after(20):
        async with open_room():
            pass


def _no_loop() -> asyncio.AbstractEventLoop:
    raise OSError(24, "too many open files")
