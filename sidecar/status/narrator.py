"""What the daemon reports while it runs: the log of changes, and the status document."""

from __future__ import annotations

from typing import Final

import msgspec
import trio

from sidecar.beat import next_beat
from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.facts import ViewKind
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.log import Log, now
from sidecar.status.present_status import PresentStatus
from sidecar.status.status_file import is_written, write_status
from sidecar.status.status_lease import end_status_lease
from sidecar.words.changes import news
from sidecar.words.missing_rights import missing_rights
from sidecar.words.settings_text import NOT_LOOKED_AT
from state.errors import StateError

READERS_PAUSE: Final = 0.005
"""Seconds that log and status wait, so that the changes themselves go first."""

STATUS_PAUSE: Final = 0.1
"""Seconds between two status documents at least: people read them, and a sweep makes a hundred worlds a second."""

STEADY_PAUSE: Final = 1.0
"""Seconds between two on the average, while changes never end: a document describes all containers."""

MOST_AT_ONCE: Final = 10
"""Documents that may come in a row without that."""

SILENT_SECONDS: Final = 10.0
"""Between two looks whether the document is still there, while nothing changes."""


class DocumentPace:
    """When the next document may be written: soon, unless many were in the last seconds."""

    def __init__(self) -> None:
        self._left = float(MOST_AT_ONCE)
        self._at = 0.0

    def pause(self, now: float) -> float:
        """Count a document that was written `now`, on a steady clock. Return the seconds until the next one may be."""
        self._left = min(MOST_AT_ONCE, self._left + (now - self._at) / STEADY_PAUSE) - 1
        self._at = now
        return max(STATUS_PAUSE, (1 - self._left) * STEADY_PAUSE)


class Narrator:
    """Reports one board's worlds, in the log and in the status document of `state_dir`."""

    def __init__(self, board: Board, log: Log, state_dir: str, present: PresentStatus) -> None:
        self._board = board
        self._log = log
        self._crashes = Crashes(board, log)
        self._state_dir = state_dir
        self._present = present

    async def narrate(self) -> None:
        """Log each change until cancelled, once that the daemon is ready, and each problem that is over, whatever task
        reported it.
        """
        before, problems = self._board.latest, dict[str, str]()
        is_announced = is_whole = False
        lacking = ""
        async for world in self._board.worlds():
            await trio.sleep(READERS_PAUSE)
            with self._crashes.contained(None, "news"):
                for line in news(before, world):
                    self._log.say(line.level, line.message, line.fields)
                told, problems = problems, self._board.problems
                for where, problem in told.items():
                    if where not in problems:
                        self._log.info("a problem is over", where=where, problem=problem)
            if world.is_ready and not is_announced:
                is_announced = True
                self.write_status()
                if world.settings.policy is PolicyName.NONE:
                    self._log.warning(NOT_LOOKED_AT)
                else:
                    lacking = self._warned_of_missing_rights(world)
                is_whole = world.sees_all
                units = sum(1 for each in world.containers.values() if each.view.kind is ViewKind.UNIT)
                self._log.info(
                    "ready",
                    policy=world.settings.policy,
                    containers=len(world.containers) - units,
                    **({"units": units} if self._board.host else {}),
                    reserved=world.state.reserved,
                    shared=world.state.shared,
                )
            elif is_announced and not is_whole and world.sees_all:
                # Of several engines, the last was reached later.
                is_whole = True
                lacking = self._warned_of_missing_rights(world, lacking)
            before = world

    def _warned_of_missing_rights(self, world: World, before: str = "") -> str:
        """Warn of what tenants use and may not, unless that was said before; return what was said."""
        lacking = missing_rights(world) if world.settings.policy is not PolicyName.NONE else ""
        if lacking and lacking != before:
            self._log.warning(lacking)
        return lacking

    async def keep_status(self) -> None:
        """Keep the status document current until cancelled, no faster than people read."""
        pace, count = DocumentPace(), 0
        while True:
            with trio.move_on_at(next_beat(trio.current_time(), SILENT_SECONDS)) as silence:
                count = await self._board.changed_since(count)
            if silence.cancelled_caught and is_written(self._state_dir):
                continue
            await trio.sleep(READERS_PAUSE)
            self.write_status()
            await trio.sleep(pace.pause(trio.current_time()))

    def write_status(self) -> None:
        """Write the status document; a failure is logged."""
        at = now().isoformat(timespec="milliseconds")
        problems = tuple(problem for where, problem in self._board.problems.items() if where != "status")
        failed: str | None = "the status cannot be written: the sidecar failed unexpectedly, and the log has the error"
        with self._crashes.contained(None, "status"):
            told = self._present.of()
            try:
                write_status(self._state_dir, msgspec.structs.replace(told, updated_at=at, problems=problems))
            except StateError as error:
                failed = str(error)
                end_status_lease(self._state_dir)
            else:
                failed = None
        self.report("status", failed)

    def report(self, where: str, problem: str | None) -> None:
        """Note a problem, or with None that it is over; a new one is logged."""
        if self._board.report(where, problem) and problem is not None:
            self._log.error(problem, where=where)
