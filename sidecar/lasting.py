"""Lasting tasks: each begins again after an unexpected error, and none but the allocator's ends the daemon.

The allocator owns the World, which is in an unknown state after an error in it: the daemon ends, and its supervisor
restarts it. Any other task reads the World, or turns something outside into facts. What it did can be done again:

1. The error is a crash, logged with its trace and counted, and a problem until the task has run for `SOUND_SECONDS`.
2. What is not true any more while the task does not run is told at once (`then`).
3. It begins again after a pause, which doubles up to a limit: an error that repeats costs next to nothing.

A task may raise certain errors (`ends`) by which it ends the daemon itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.log import Log

FIRST_PAUSE_SECONDS: Final = 1.0
"""A crash that was an accident costs a second."""

LONGEST_PAUSE_SECONDS: Final = 60.0

SOUND_SECONDS: Final = 60.0
"""After so long without an error, the last one is no problem any more, and the next pause is the first again."""


class LastingTasks:
    """Runs tasks that last, each in the task of its caller."""

    def __init__(self, board: Board, log: Log) -> None:
        self._board = board
        self._crashes = Crashes(board, log)

    async def keep(
        self,
        what: str,
        run: Callable[[], Awaitable[None]],
        *,
        then: Callable[[], Awaitable[None]] | None = None,
        ends: tuple[type[Exception], ...] = (),
        longest: float = LONGEST_PAUSE_SECONDS,
    ) -> None:
        """Run a task until it returns, or raises one of `ends`. `what` is what it does ("taking inventories"), and each
        task's own; `longest` is its longest pause in seconds.
        """
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = trio.current_time()
            error = await self._error_of(what, run, ends)
            if error is None:
                self._board.report(what, None)
                return
            # 1.
            self._crashes.tell(None, what, error)
            self._board.report(what, f"{what} failed unexpectedly, and began again: the log has the error")
            # 2.
            if then is not None:
                with self._crashes.contained(None, what):
                    await then()
            # 3.
            if trio.current_time() - began >= SOUND_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            await trio.sleep(pause)
            pause = min(longest, 2 * pause)

    async def _error_of(
        self, what: str, run: Callable[[], Awaitable[None]], ends: tuple[type[Exception], ...]
    ) -> Exception | None:
        """Run the task; return its unexpected error, None if it returned."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._solve_later, what)
                await run()
                nursery.cancel_scope.cancel()
        except Exception as error:
            found = leaves(error)
            if any(isinstance(each, ends) for each in found):
                raise
            return found[0] if len(found) == 1 else error
        return None

    async def _solve_later(self, what: str) -> None:
        await trio.sleep(SOUND_SECONDS)
        self._board.report(what, None)


def leaves(error: Exception) -> list[Exception]:
    """Return the errors of which this one consists."""
    if not isinstance(error, ExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in leaves(each)]
