"""Every change, once: as events that followers read and resume, as a file of events, and as the history of grants.

One task compares each world with the one before, whatever the number of followers. An event has an id, `RUN-NUMBER`:
the run of the daemon, and its number there. A follower that comes back with the last id it has gets what came after it.

1. The last `MOST` events are kept. A follower that comes back later than that, or in another run, is sent an event
   `missed` first: it has to look at the present state by itself.
2. A follower that reads slowly gets several events at once, and `missed` if it falls behind by more than `MOST`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import trio

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.log import Log, LogLevel
from sidecar.status.event_file import BEGAN, ENDED, shortened
from sidecar.status.grant_changes import changes_at_start, changes_between
from sidecar.status.grant_history import GrantChange, GrantHistory, history, kept
from sidecar.status.history_file import HistoryFile
from sidecar.status.line_file import LineFile
from sidecar.status.recorded_change import RecordedChange
from sidecar.words.changes import Line, news
from state import codec
from state.errors import StateError

MOST: Final = 1000
"""Events that are kept for those that come back: some minutes of a busy host, 300 KiB."""

EVENT_PAUSE: Final = 0.005
"""Seconds that events wait so that the changes that they report take precedence, as in the log."""

_AT_ONCE: Final = 100
"""Events that a follower is sent at once, so that no part of an answer is long."""


class ChangeRecord:
    """The changes of one board. `keep` has to run."""

    def __init__(
        self,
        board: Board,
        clock: Callable[[], datetime],
        file: HistoryFile | None = None,
        events: LineFile | None = None,
    ) -> None:
        """Record from now on, grants with what `file` has of the time before, and events into the file `events`."""
        self._board = board
        self._clock = clock
        self._file = file
        self._event_file = events
        self._run = f"{int(clock().timestamp() * 1000):x}"
        self._events: deque[bytes] = deque(maxlen=MOST)
        self._recorded: deque[RecordedChange] = deque(maxlen=MOST)
        self._changed = trio.Event()
        self._grants: tuple[GrantChange, ...] = ()
        self.last = 0
        """The number of the last event."""
        self.granted = 0
        """How many changes of grants were recorded."""
        self.is_kept = False

    async def keep(self, log: Log) -> None:
        """Record every change until cancelled."""
        self.is_kept = True
        crashes = Crashes(self._board, log)
        before = self._board.latest
        self._begin(log)
        try:
            async for world in self._board.worlds():
                await trio.sleep(EVENT_PAUSE)
                with crashes.contained(None, "events"):
                    at, lines = self._clock(), list(news(before, world))
                    self._add(lines, at)
                    self._record(list(changes_between(before, world, at.timestamp(), lines)))
                before = world
        finally:
            self._write_down([_told(f"{self._run}-end", Line(LogLevel.INFO, ENDED, {}), self._clock())])

    def history(self) -> GrantHistory:
        """Return the grants of the last hour."""
        return history(self._grants, self._clock().timestamp())

    def from_id(self, last_event: str) -> int:
        """Return the number that follows this id's; that of the next event without one, 0 if events were missed."""
        run, _, number = last_event.partition("-")
        if not last_event:
            return self.last + 1
        is_ours = run == self._run and number.isascii() and number.isdigit() and len(number) < 16
        return int(number) + 1 if is_ours and self._oldest <= int(number) + 1 <= self.last + 1 else 0

    def events(self, number: int) -> tuple[bytes, int]:
        """Return the events from this number on, as they are sent, and the number of the next; nothing if none are."""
        if number < self._oldest:
            missed = f"id: {self._run}-{self.last}\nevent: missed\ndata: {{}}\n\n"
            return missed.encode(), self.last + 1
        first = number - self._oldest
        some = [self._events[place] for place in range(first, min(first + _AT_ONCE, len(self._events)))]
        return b"".join(some), number + len(some)

    def changes(self, number: int, most: int) -> tuple[tuple[RecordedChange, ...], int, int]:
        """Return the changes from this number on, `most` at most, the number of the next, and how many were missed."""
        missed = max(0, self._oldest - number)
        first = number + missed - self._oldest
        found = tuple(self._recorded[place] for place in range(first, min(first + most, len(self._recorded))))
        return found, number + missed + len(found), missed

    def grants(self, number: int) -> tuple[GrantChange, ...]:
        """Return the changes of grants after so many, as far as they are kept."""
        return self._grants[-(self.granted - number) :] if number < self.granted else ()

    async def wait(self) -> None:
        """Wait for the next event."""
        await self._changed.wait()

    @property
    def _oldest(self) -> int:
        return self.last + 1 - len(self._events)

    def _add(self, lines: list[Line], at: datetime) -> None:
        recorded = []
        for line in lines:
            self.last += 1
            id = f"{self._run}-{self.last}"
            self._events.append(_event(id, line, at))
            recorded.append(_told(id, line, at))
            self._recorded.append(RecordedChange(line.level, line.message, recorded[-1]))
        if lines:
            self._changed.set()
            self._changed = trio.Event()
            self._write_down(recorded)

    def _write_down(self, events: list[bytes]) -> None:
        with self._reporting("events"):
            if self._event_file and self._event_file.append(events):
                self._event_file.replace(shortened(self._event_file.read()))

    def _begin(self, log: Log) -> None:
        recorded: tuple[GrantChange, ...] = ()
        try:
            recorded = self._file.read() if self._file else ()
        except StateError as error:
            log.warning(f"a new history of grants is begun: {error}")
        now = self._clock().timestamp()
        begun = tuple(changes_at_start(recorded, self._board.latest, now))
        self._grants = kept((*recorded, *begun), now)
        self._replace()
        if self._event_file:
            self._begin_events(self._event_file, log)
        self._write_down([_told(f"{self._run}-0", Line(LogLevel.INFO, BEGAN, {}), self._clock())])

    def _begin_events(self, file: LineFile, log: Log) -> None:
        """Begin with what is there, without a line that was cut off, and readable by those that may read it now."""
        with self._reporting("events"):
            try:
                recorded = shortened(file.read())
            except StateError as error:
                log.warning(f"a new file of events is begun: {error}")
                recorded = []
            file.replace(recorded)

    def _record(self, changes: list[GrantChange]) -> None:
        if not changes:
            return
        self._grants = kept((*self._grants, *changes), changes[-1].at)
        self.granted += len(changes)
        is_long = False
        with self._reporting("history"):
            is_long = self._file is not None and self._file.append(changes)
        if is_long:
            self._replace()

    def _replace(self) -> None:
        with self._reporting("history"):
            if self._file:
                self._file.replace(self._grants)

    def _reporting(self, where: str) -> _Reporting:
        return _Reporting(self._board, where)


class _Reporting:
    """A block whose error of the file becomes a problem of the daemon, until the next one succeeds."""

    def __init__(self, board: Board, where: str) -> None:
        self._board = board
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _at: object) -> bool:
        is_ours = isinstance(error, StateError)
        if is_ours or error is None:
            self._board.report(self._where, str(error) if error else None)
        return is_ours


def _event(id: str, line: Line, at: datetime) -> bytes:
    """Return a line of news as a server-sent event."""
    return b"id: %s\nevent: change\ndata: %s\n\n" % (id.encode(), codec.encode(_fields(line, at)))


def _told(id: str, line: Line, at: datetime) -> bytes:
    """Return a line of news as a line of the file."""
    return codec.encode({"id": id, **_fields(line, at)}, keeps_order=True)


def _fields(line: Line, at: datetime) -> dict[str, Any]:
    told = {"time": at.isoformat(timespec="milliseconds"), "level": line.level.name.lower()}
    return {**told, "message": line.message, **line.fields}
