"""A page on a terminal that follows the status document, until `q` or Ctrl-C. A page longer than the screen scrolls.

The keys are read without echo and without waiting for a line; the terminal is as before at the end.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from sidecar.status.document import Status
from sidecar.status.sight import Sight
from sidecar.status.status_file import read_status
from sidecar.status.status_reader import read_last_status

REFRESH_SECONDS: Final = 0.5
"""Fast enough to follow a container's start by eye; reading the document takes a millisecond."""

Page = Callable[[Status, datetime, Sight, int], list[str]]
"""The lines for a document, the time, what is known of the daemon, and the width of the screen."""

QUIT: Final = ("q", "Q")

_ROWS: Final[Mapping[str, int]] = {"j": 1, "\x1b[B": 1, "\x1bOB": 1, "k": -1, "\x1b[A": -1, "\x1bOA": -1}
"""Keys that scroll by lines: `j`, `k` and the arrows, in both modes of a terminal."""

_SCREENS: Final[Mapping[str, int]] = {" ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
"""Keys that scroll by screens: the space bar, `b`, Page Up and Page Down."""


def follow(what: str, state_dir: str, page: Page) -> int:
    """Show the page at each change. Return 2 without a terminal, which `what` needs. StateError without a status."""
    # Only here: it is a large import, and a slow one.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    read_status(state_dir)
    console = Console(highlight=False)
    if not console.is_terminal:
        sys.stderr.write(f"cpuset-sidecar: {what} needs a terminal\n")
        return 2
    top = 0
    # Ctrl-C is a normal way to leave, so it is not a failure.
    with (
        contextlib.suppress(KeyboardInterrupt),
        _keys() as pressed,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        key = ""
        while key not in QUIT:
            last = read_last_status(state_dir, time.time())
            lines = page(last.status, datetime.now(UTC), last.sight, console.width)
            top = scrolled(top, key, len(lines), console.height)
            live.update(Text.from_ansi("\n".join(window(lines, top, console.height))), refresh=True)
            key = pressed(REFRESH_SECONDS)
    return 0


def scrolled(top: int, key: str, lines: int, height: int) -> int:
    """Return the first line to show after this key, so that the lines fill the screen."""
    shown = height - 1
    moved = top + _ROWS.get(key, 0) + _SCREENS.get(key, 0) * shown
    return max(0, min(moved, lines - shown)) if lines > height else 0


def window(lines: list[str], top: int, height: int) -> list[str]:
    """Return the lines from `top` that a screen has room for; where that is not all, the last line says which."""
    if len(lines) <= height:
        return lines
    shown = lines[top : top + height - 1]
    where = f"lines {top + 1}-{top + len(shown)} of {len(lines)}"
    return [*shown, f"{where}: arrows, space and b scroll, q quits"]


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits some seconds for a key, and returns it; "" for none."""
    try:
        keyboard = sys.stdin.fileno()
        before = termios.tcgetattr(keyboard)
    except (OSError, ValueError, termios.error):
        # Stdin is no terminal: it is only waited for the next change.
        yield _no_key
        return

    def pressed(seconds: float) -> str:
        if not select.select([keyboard], [], [], seconds)[0]:
            return ""
        if not (key := os.read(keyboard, 16)):
            # The terminal is gone. Without a pause this would not end before the signal that says so.
            time.sleep(seconds)
        return key.decode(errors="replace")

    tty.setcbreak(keyboard)
    try:
        yield pressed
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _no_key(seconds: float) -> str:
    select.select([], [], [], seconds)
    return ""
