"""Text in the cells of a screen: wide characters take two, combining ones none, and colours none. Pure.

What others wrote has passed `printable` before, so every escape in a line is a colour of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")

_RESET: Final = "\x1b[0m"
_DOTS: Final = "..."


def cells_of(line: str) -> int:
    """Return how many cells a line takes."""
    return cell_len(COLOUR.sub("", line))


def uncoloured(line: str) -> str:
    """Return a line without its colours."""
    return COLOUR.sub("", line)


def reverse(text: str) -> str:
    """Return a text in reverse, without colours of its own."""
    return f"\x1b[7m{uncoloured(text)}{_RESET}"


def bold(text: str) -> str:
    """Return a text in bold."""
    return f"\x1b[1m{text}{_RESET}"


def fitted(line: str, width: int) -> str:
    """Return a line that takes exactly this many cells: filled with spaces, or cut."""
    size = cells_of(line)
    return line + " " * (width - size) if size <= width else cut_to(line, width)


def cut_to(line: str, width: int) -> str:
    """Return a line that takes at most this many cells; where it is cut, with three dots if there is room for them."""
    if cells_of(line) <= width:
        return line
    dots = _DOTS if width > 2 * len(_DOTS) else ""
    left, made = width - len(dots), ""
    has_colour = False
    for piece, is_colour in _pieces(line):
        if is_colour:
            made, has_colour = made + piece, True
            continue
        size = cell_len(piece)
        if size > left:
            made += set_cell_size(piece, left)
            break
        made, left = made + piece, left - size
    return f"{made}{_RESET if has_colour else ''}{dots}"


def folded(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text as lines of at most this many cells, broken between words where possible; all but the first are
    indented. Nothing is lost.
    """
    lines, line = [], ""
    for word in text.split(" "):
        rest = word
        while line.strip() and cells_of(line) + 1 + cell_len(rest) > width:
            lines.append(line)
            line = ""
        if line.strip():
            line += f" {rest}"
            continue
        start = indent if lines and len(indent) < width else ""
        while cell_len(start + rest) > width:
            head = _head(rest, width - len(start))
            lines.append(start + head)
            rest = rest[len(head) :]
            start = indent if len(indent) < width else ""
        line = start + rest
    return [*lines, line]


def side_by_side(left: Sequence[str], right: Sequence[str], width: int, gap: str) -> list[str]:
    """Return two columns, the left one with this many cells."""
    pairs = (
        (left[n] if n < len(left) else "", right[n] if n < len(right) else "") for n in range(_longer(left, right))
    )
    return [f"{fitted(one, width)}{gap}{other}" for one, other in pairs]


def _longer(left: Sequence[str], right: Sequence[str]) -> int:
    return max(len(left), len(right))


def _head(text: str, width: int) -> str:
    """Return the longest beginning that takes at most this many cells; at least one character."""
    size, taken = 0, 0
    for taken, character in enumerate(text):
        size += cell_len(character)
        if size > width:
            return text[: max(1, taken)]
    return text[: taken + 1]


def _pieces(line: str) -> Iterator[tuple[str, bool]]:
    at = 0
    for found in COLOUR.finditer(line):
        yield line[at : found.start()], False
        yield found.group(), True
        at = found.end()
    yield line[at:], False
