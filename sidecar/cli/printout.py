"""The width of the page that a command prints: a terminal's own, and none in a pipe, where nothing is wrapped."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Final, NamedTuple

from sidecar.cli.machine_drawing import Paint, coloured, plain
from sidecar.log import printable

LEAST_WIDTH: Final = 40
"""Columns below which a page is no longer narrowed: words would break everywhere."""

_INDENT: Final = "    "

_MONOCHROME: Final = ("dumb", "-m", "mono")
_OLD: Final = ("vt1", "vt2", "vt3")
"""Kinds of terminals (TERM) without colours, by the end and the beginning of their names."""


class Printout(NamedTuple):
    """How to print a page: its colours, and its width in columns; None where lines may be of any length."""

    paint: Paint = plain
    width: int | None = None


def printout() -> Printout:
    """Return how to print on stdout. A program that reads the output gets whole lines, and no colours."""
    if not sys.stdout.isatty():
        return Printout()
    width = max(LEAST_WIDTH, shutil.get_terminal_size((100, 24)).columns)
    return Printout(coloured if has_colours() else plain, width)


def can_draw() -> bool:
    """Return whether stdout is a terminal on which a place can be written to."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def has_colours() -> bool:
    """Return whether a terminal is to have colours: it knows them, and its user did not forbid them (`NO_COLOR`)."""
    kind = os.environ.get("TERM", "")
    return not os.environ.get("NO_COLOR") and not kind.endswith(_MONOCHROME) and not kind.startswith(_OLD)


def wrapped(text: str, width: int | None, indent: str = _INDENT) -> list[str]:
    """Return a sentence as lines not wider than `width`; all but the first are indented. Nothing is cut."""
    if width is None:
        return [printable(text)]
    return textwrap.wrap(printable(text), width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def joined(parts: Iterable[str], width: int | None, gap: str = " | ") -> list[str]:
    """Return parts with a gap between them, in lines not wider than `width`; a line breaks only between two parts."""
    lines: list[str] = []
    for part in map(printable, parts):
        if lines and (width is None or len(lines[-1]) + len(gap) + len(part) <= width):
            lines[-1] += gap + part
        else:
            lines += wrapped(part, width)
    return lines
