"""The room for asyncio: the one place where trio and aiodocker meet.

aiodocker needs asyncio, the sidecar is trio. An asyncio loop runs in a thread of its own, and trio stays pure: if
asyncio code hangs, trio still sees its signals and deadlines.

1. The loop's beginning and the end of its thread are waited for in a worker thread.
2. A call makes an asyncio task, whose end reschedules the waiting trio task. No thread waits for a result, and there is
   one hand-over each way: from an idle process 0.24 ms there and back.
3. A cancelled call cancels the asyncio task and waits until it has ended, cleanup included. It is not abandoned: a
   connection in an unknown state would return to the pool. If the task still succeeds, its result counts.
4. There is no nursery around the `yield`: it would wrap an error of the body in a group, and `except EngineUnavailable`
   would silently stop matching.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, Generic, NamedTuple, TypeVar, TypeVarTuple, cast

import outcome
import trio

from sidecar.failures import EngineUnavailable
from sidecar.priority import is_preferred, prefer

T = TypeVar("T")
Args = TypeVarTuple("Args")


class AsyncioRoom:
    """Runs asyncio functions for trio tasks. Made by `open_room`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def call(self, function: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Run an asyncio function in the room. Return its result, or raise its error.

        Raise EngineUnavailable if the room closes meanwhile. The function must limit its own time.
        """

        async def run() -> T:
            return await function(*args)

        one: _Call[T] = _Call(self._loop, run)
        self._loop.call_soon_threadsafe(one.start, context=contextvars.Context())
        return cast(T, await trio.lowlevel.wait_task_rescheduled(one.abort))


class _Call(Generic[T]):
    """One call: made in the trio task that waits for it; `start` and `_ended` run in the room."""

    def __init__(self, loop: asyncio.AbstractEventLoop, run: Callable[[], Any]) -> None:
        self._loop = loop
        self._run = run
        self._waiting = trio.lowlevel.current_task()
        self._trio = trio.lowlevel.current_trio_token()
        self._task: asyncio.Task[T] | None = None
        self._raise_cancelled: Callable[[], Any] | None = None

    def start(self) -> None:
        """Make the asyncio task."""
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    def abort(self, raise_cancelled: Callable[[], Any]) -> trio.lowlevel.Abort:
        """Cancel the asyncio task of a cancelled trio task, and wait for its end."""
        self._raise_cancelled = raise_cancelled
        self._loop.call_soon_threadsafe(self._cancel)  # runs after `start`, which was scheduled earlier
        return trio.lowlevel.Abort.FAILED

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._trio.run_sync_soon(trio.lowlevel.reschedule, self._waiting, self._outcome(task))

    def _outcome(self, task: asyncio.Task[T]) -> outcome.Outcome[Any]:
        if task.cancelled():
            if self._raise_cancelled is not None:
                cancelled: outcome.Outcome[Any] = outcome.capture(self._raise_cancelled)
                return cancelled
            return outcome.Error(EngineUnavailable("the connection to the engine was closed"))
        error = task.exception()
        return outcome.Value(task.result()) if error is None else outcome.Error(error)


class _Loop(NamedTuple):
    """A loop that runs until its event is set."""

    running: asyncio.AbstractEventLoop
    end: asyncio.Event


async def _stay(began: Future[_Loop], *, preferred: bool) -> None:
    """Run in the loop's own thread, which has the priority of the one that opens the room, until the end is wanted."""
    if preferred:
        prefer()
    here = _Loop(asyncio.get_running_loop(), asyncio.Event())
    began.set_result(here)
    await here.end.wait()


def _live(began: Future[_Loop], *, preferred: bool) -> None:
    """Be the thread. What is left in the loop at its end is cancelled with it."""
    try:
        with asyncio.Runner() as room:
            room.run(_stay(began, preferred=preferred))
    except BaseException as error:
        if began.done():
            raise
        began.set_exception(error)


@asynccontextmanager
async def open_room() -> AsyncIterator[AsyncioRoom]:
    """Yield an asyncio loop in a thread, which runs within the block and is joined at the end, also when cancelled."""
    began: Future[_Loop] = Future()
    told = {"preferred": is_preferred()}
    thread = threading.Thread(target=_live, args=(began,), kwargs=told, name="engine-asyncio")

    def begin() -> _Loop:
        thread.start()
        return began.result()

    loop = await trio.to_thread.run_sync(begin)  # Where that is cancelled, it has not begun.
    try:
        yield AsyncioRoom(loop.running)
    finally:
        loop.running.call_soon_threadsafe(loop.end.set)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(thread.join)
