"""A measurement of `disturbed`, as a screen shows it: how long it still takes, and then what it printed. Pure."""

from __future__ import annotations

import msgspec

from sidecar.cli.top.cell_text import folded
from sidecar.log import printable


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, for how long in all, and how much of it is over; then what was printed, and the exit code."""

    name: str
    seconds: float
    passed: float = 0.0
    printed: str = ""
    code: int | None = None


def measurement_lines(made: Measurement | None, width: int) -> list[str]:
    """Return the lines; without a measurement, how to make one."""
    if made is None:
        return folded("nothing was measured: mark a container with CPUs of its own, and press d", width)
    name = printable(made.name)
    if made.code is None:
        left = made.seconds - made.passed
        wait = f"{left:.0f} of {made.seconds:g} s left" if left > 0 else "reading what it found"
        return [*folded(f"measuring what else runs on the CPUs of {name}: {wait}", width), _progress(made, width)]
    lines = [printable(line) for line in made.printed.splitlines()]
    again = "d measures again" if made.code == 0 else f"it failed ({made.code}); d tries again"
    return [*(part for line in lines for part in folded(line, width, "    ")), "", *folded(again, width)]


def _progress(made: Measurement, width: int) -> str:
    size = min(width, 60) - 2
    done = min(size, int(size * made.passed / made.seconds))
    return f"[{'#' * done}{'-' * (size - done)}]" if size > 0 else ""
