"""The room where asyncio lives: the one place where trio and aiodocker meet.

aiodocker needs asyncio, the sidecar is trio. An asyncio loop runs in a thread of its own, behind anyio's blocking
portal, and trio stays pure: if asyncio code hangs, trio still sees its signals and deadlines.

1. The portal starts and ends in a worker thread, since both wait for the loop's thread.
2. A call reschedules the waiting trio task from a callback; no thread waits for a result.
3. A cancelled call cancels the asyncio task and waits until it has ended. It is not abandoned: a connection in an
   unknown state would go back to the pool. The cancellation is anyio's and strikes every further `await` too: cleanup
   in the room must not await, or must be a call of its own.
4. There is no nursery around the `yield`: an error of the body would come out wrapped in a group, and
   `except EngineUnavailable` would silently stop to match.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

import trio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from sidecar.errors import EngineUnavailable

T = TypeVar("T")
Args = TypeVarTuple("Args")


class Room:
    """Runs asyncio functions for trio tasks. Made by `open_room`."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal

    async def call(self, function: Callable[[*Args], Awaitable[T]], *args: *Args) -> T:
        """Run an asyncio function in the room; its result and its errors come back as they are.

        EngineUnavailable if the room closes meanwhile. The function must bound its own time.
        """
        try:
            return await self._portal.call_async(function, *args)
        except concurrent.futures.CancelledError as error:
            raise EngineUnavailable("the connection to the engine was closed meanwhile") from error


@asynccontextmanager
async def open_room() -> AsyncIterator[Room]:
    """An asyncio loop in a thread, for as long as the block runs; joined at the end, also when cancelled."""
    portal_of_thread = start_blocking_portal("asyncio", name="engine-asyncio")
    portal = await trio.to_thread.run_sync(portal_of_thread.__enter__)
    try:
        yield Room(portal)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(portal_of_thread.__exit__, None, None, None)
