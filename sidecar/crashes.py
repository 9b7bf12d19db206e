"""Crashes: an unexpected error in the work for one container costs that container, not the daemon and not another one.

What a container's author writes reaches nearly all code, and no test proves that none of it raises. So each task that
works for one container contains its errors: the block ends, the crash is logged with its container and counted, and
what follows the block treats the outcome as unknown. Errors that the design knows are no crashes, and pass.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Final

import trio

from sidecar.board import Board
from sidecar.failures import SidecarError
from sidecar.log import Log, LogLevel
from sidecar.words.units import noun
from state.errors import StateError
from state.key import ContainerKey

_ENDS: Final = (trio.ClosedResourceError, trio.BrokenResourceError, trio.EndOfChannel)
"""The end of a channel, by which tasks end."""

_KNOWN: Final = (SidecarError, StateError, *_ENDS)
"""Errors that callers handle, and such ends."""

_MOST_LOGGED: Final = 256
"""Different crashes that are logged with their trace: a container can repeat one with every event."""


class Contained:
    """A block that ends at an unexpected error, which goes to `tell`."""

    def __init__(self, tell: Callable[[Exception], None]) -> None:
        self._tell = tell

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, _KNOWN):
            return False
        self._tell(error)
        return True


class Crashes:
    """Contains crashes, and counts them on a board."""

    def __init__(self, board: Board, log: Log) -> None:
        self._board = board
        self._log = log
        self._logged: set[tuple[ContainerKey | None, str, str]] = set()

    def contained(self, container: ContainerKey | None, work: str) -> Contained:
        """End the block at an unexpected error, which is logged and counted, and go on after it. `work` is a noun.

        Without a container it is work for all of them that can be left out once.
        """
        return Contained(partial(self.tell, container, work))

    async def run(self, container: ContainerKey | None, work: str, task: Callable[[], Awaitable[None]]) -> bool:
        """Run a task that comes and goes. It ends at an error, known or not: what gets that far was not expected by the
        task. Return whether there was none.
        """
        try:
            await task()
        except _ENDS:
            raise
        except Exception as error:
            self.tell(container, work, error)
            return False
        return True

    def tell(self, container: ContainerKey | None, work: str, error: Exception) -> None:
        """Count a crash, and log it."""
        self._board.crashes += 1
        place = traceback.extract_tb(error.__traceback__)[-1:]
        crash = (container, work, f"{type(error).__name__} {place}")
        is_new = crash not in self._logged and len(self._logged) < _MOST_LOGGED
        self._logged.add(crash) if is_new else None
        fields: dict[str, object] = {"work": work, "error": f"{type(error).__name__}: {error}"}
        if container is not None:
            known = self._board.latest.containers.get(container)
            fields = {noun(container): known.view.name if known else container.short, "id": container.short, **fields}
        if is_new:
            fields["trace"] = "".join(traceback.format_exception(error))
        self._log.say(LogLevel.ERROR if is_new else LogLevel.DEBUG, "the sidecar failed unexpectedly", fields)
