"""`top` on a terminal: reads the status, the hour and the keys, and shows what `screen` makes of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from sidecar.cli.machine_drawing import coloured, plain
from sidecar.cli.printout import has_colours
from sidecar.cli.status_choice import ALL, Choice
from sidecar.cli.top.measuring_process import MeasuringProcess, measuring
from sidecar.cli.top.screen import Look, Screen, Seen, Still, drawn, is_still, still_of
from sidecar.cli.top.tenant_table import tenant_rows
from sidecar.cli.top.terminal import Terminal, taken_terminal
from sidecar.cli.top.time_lines import ASCII_BARS, BARS
from sidecar.cli.top.view import Layout, Panel, View, ViewAsk, after, row_of
from sidecar.status.grant_history import GrantChange, history
from sidecar.status.history_file import NAME as HISTORY
from sidecar.status.history_file import HistoryFile
from sidecar.status.status_file import read_status
from sidecar.status.status_reader import StatusFollower
from state.errors import StateError

REST_SECONDS: Final = 0.5
"""Between two looks at the status while nothing counts down: a container's start is followed by eye."""

BUSY_SECONDS: Final = 0.25
"""The same while a take or a measurement counts down: a screen is written at most four times a second, but for keys."""

REDRAW_SECONDS: Final = 1.0
"""How old the shown time may be while nothing else changes."""

_KEYS_AT_ONCE: Final = 32
"""Keys that came together, each of which is meant for the screen after the one before: a pasted file is not."""


class _Hour:
    """The changes of the last hour, read again when the file has changed."""

    def __init__(self, state_dir: str) -> None:
        self._state_dir = state_dir
        self._stamp: tuple[int, ...] = ()
        self._changes: tuple[GrantChange, ...] = ()
        self.flaw = ""

    def changes(self) -> tuple[GrantChange, ...]:
        """Return the changes; without them, `flaw` says why."""
        try:
            seen = os.stat(os.path.join(self._state_dir, HISTORY))
            if (stamp := (seen.st_mtime_ns, seen.st_ino, seen.st_size)) != self._stamp:
                self._changes, self._stamp, self.flaw = HistoryFile(self._state_dir).read(), stamp, ""
        except FileNotFoundError:
            self._changes, self._stamp, self.flaw = (), (), ""
        except (OSError, StateError) as error:
            self._changes, self._stamp, self.flaw = (), (), str(error)
        return self._changes


class _Sources:
    """What is read, and the changes of the last hour that are shown."""

    def __init__(self, status: StatusFollower, hour: _Hour) -> None:
        self.status, self.hour = status, hour
        self.shown: tuple[GrantChange, ...] | None = None


class _Drawing:
    """The screen as it was drawn last: what is the same is not drawn again."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._of: tuple[Seen, View, Look] | None = None
        self._size = os.terminal_size((0, 0))
        self._still: Still | None = None
        self._screen = Screen(lines=(), layout=Layout())

    @property
    def layout(self) -> Layout:
        return self._screen.layout

    def of(self, seen: Seen, view: View, size: os.terminal_size) -> Screen:
        """Return the screen of this size."""
        before = self._of
        if before is None or before[0] is not seen or (before[1], self._size) != (view, size):
            look = msgspec.structs.replace(self._look, width=size.columns, height=size.lines)
            if before is None or self._still is None or not is_still(before, seen, view, look):
                self._still = still_of(seen, view, look)
            self._screen, self._of, self._size = drawn(seen, view, look, self._still), (seen, view, look), size
        return self._screen


def full_screen(state_dir: str, options: Sequence[str], choice: Choice = ALL) -> int:
    """Show the screen until `q` or Ctrl-C. `options` name the state directory for another command, and `choice` is
    what is shown. StateError without a status.
    """
    read_status(state_dir)
    has_bars = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    paint = coloured if has_colours() else plain
    bars = BARS if has_bars else ASCII_BARS
    with taken_terminal() as terminal, measuring(options, time.monotonic) as measurer:
        _show(state_dir, terminal, measurer, Look(width=0, height=0, paint=paint, bars=bars), _first_view(choice))
    return 0


def _first_view(choice: Choice) -> View:
    """Return the view of this choice; that of owners is a key's, which ends it."""
    return View(choice=msgspec.structs.replace(choice, is_owner_only=False), only_owners=choice.is_owner_only)


def _show(state_dir: str, terminal: Terminal, measurer: MeasuringProcess, look: Look, view: View) -> None:
    sources = _Sources(StatusFollower(state_dir), _Hour(state_dir))
    seen = _read(sources, None)
    read_at = time.monotonic()
    drawing = _Drawing(look)
    while view.ask is not ViewAsk.QUIT:
        pause = _pause(seen)
        if not view.is_paused and time.monotonic() >= read_at + pause:
            seen, read_at = _read(sources, seen), time.monotonic()
        measurement = measurer.look()
        if measurement != seen.measurement:
            seen = msgspec.structs.replace(seen, measurement=measurement)
        size = terminal.look()
        terminal.show(drawing.of(seen, view, size).lines)
        left = REST_SECONDS if view.is_paused else read_at + pause - time.monotonic()
        for number, event in enumerate(terminal.wait(left, measurer.descriptors)):
            # After many keys at once, as pasted ones are, the layout is an older one.
            view = after(view, event, drawing.of(seen, view, size).layout if number < _KEYS_AT_ONCE else drawing.layout)
            if view.ask is ViewAsk.QUIT:
                break
            _carry_out(view, seen, terminal, measurer)


def _carry_out(view: View, seen: Seen, terminal: Terminal, measurer: MeasuringProcess) -> None:
    if view.ask is ViewAsk.REDRAW:
        terminal.redraw()
    if view.ask is ViewAsk.MEASURE and view.panel is Panel.DISTURBED:
        rows = tenant_rows(seen.status, view, seen.now, seen.sight)
        row = row_of(view, tuple(each.id for each in rows))
        if row >= 0:
            measurer.start(rows[row].id, rows[row].tenant.name)


def _read(sources: _Sources, before: Seen | None) -> Seen:
    """Return what is known now: the same as before while nothing but the time has changed, for a second.

    A status that cannot be read any more stays as it was, as the last word of its daemon.
    """
    at = time.time()
    try:
        last = sources.status.read(at)
    except StateError:
        if before is None:
            raise
        return msgspec.structs.replace(before, sight=msgspec.structs.replace(before.sight, is_last_word=True))
    changes = sources.hour.changes()
    is_same = before is not None and (before.status, before.sight) == (last.status, last.sight)
    is_new = before is not None and at < before.now.timestamp() + REDRAW_SECONDS
    if before and is_same and is_new and changes is sources.shown and not _counts_down(before):
        return before
    sources.shown = changes
    return Seen(
        status=last.status,
        sight=last.sight,
        now=datetime.fromtimestamp(at, UTC),
        history=None if sources.hour.flaw else history(changes, at),
        history_flaw=sources.hour.flaw,
        measurement=before.measurement if before else None,
    )


def _pause(seen: Seen) -> float:
    is_measuring = seen.measurement is not None and seen.measurement.code is None
    return BUSY_SECONDS if _counts_down(seen) or is_measuring else REST_SECONDS


def _counts_down(seen: Seen) -> bool:
    return any(each.leaving for each in seen.status.rows)
