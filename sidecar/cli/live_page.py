"""A page on a terminal that follows the status document, until `q` or Ctrl-C. A page longer than the screen scrolls."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from sidecar.cli.printout import can_draw
from sidecar.cli.top.input_events import Event, KeyPress, Mouse
from sidecar.status.document import Status
from sidecar.status.sight import Sight
from sidecar.status.status_file import read_status
from sidecar.status.status_reader import StatusFollower

REFRESH_SECONDS: Final = 0.5
"""Fast enough to follow a container's start by eye; reading the document takes a millisecond."""

Page = Callable[[Status, datetime, Sight, int], list[str]]
"""The lines for a document, the time, what is known of the daemon, and the width of the screen."""

QUIT: Final = (KeyPress("q"), KeyPress("Q"))

_ROWS: Final[Mapping[str, int]] = {"j": 1, "down": 1, "k": -1, "up": -1}
_SCREENS: Final[Mapping[str, int]] = {" ": 1, "page-down": 1, "b": -1, "page-up": -1}
_WHEEL: Final[Mapping[str, int]] = {"down": 3, "up": -3}


def follow(what: str, state_dir: str, page: Page) -> int:
    """Show the page at each change. Return 2 without a terminal, which `what` needs. StateError without a status."""
    # Only here: what measures wide characters is a package of the daemon's.
    from sidecar.cli.top.cell_text import cut_to
    from sidecar.cli.top.terminal import taken_terminal

    read_status(state_dir)
    if not can_draw():
        sys.stderr.write(f"cpuset-sidecar: {what} needs a terminal\n")
        return 2
    follower = StatusFollower(state_dir)
    top, is_over = 0, False
    with taken_terminal() as terminal:
        while not is_over:
            last = follower.read(time.time())
            width, height = terminal.look()
            lines = page(last.status, datetime.now(UTC), last.sight, width)
            top = scrolled(top, 0, len(lines), height)
            terminal.show([cut_to(line, width) for line in window(lines, top, height)])
            for event in terminal.wait(REFRESH_SECONDS):
                is_over = is_over or event in QUIT
                top = scrolled(top, rows_of(event, height), len(lines), height)
    return 0


def rows_of(event: Event, height: int) -> int:
    """Return by how many lines a key or the wheel scrolls a screen of this height."""
    if isinstance(event, Mouse):
        return _WHEEL.get(event.what, 0)
    return _ROWS.get(event.name, 0) + _SCREENS.get(event.name, 0) * (height - 1)


def scrolled(top: int, rows: int, lines: int, height: int) -> int:
    """Return the first line to show after scrolling by so many rows, so that the lines fill the screen."""
    return max(0, min(top + rows, lines - (height - 1))) if lines > height else 0


def window(lines: list[str], top: int, height: int) -> list[str]:
    """Return the lines from `top` that a screen has room for; where that is not all, the last line says which."""
    if len(lines) <= height:
        return lines
    shown = lines[top : top + height - 1]
    where = f"lines {top + 1}-{top + len(shown)} of {len(lines)}"
    return [*shown, f"{where}: arrows, space and b scroll, q quits"]
