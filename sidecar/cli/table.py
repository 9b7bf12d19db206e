"""A table in text: columns as wide as their widest cell, and cells that wrap on a narrow page. Nothing is cut. Pure."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Collection, Sequence
from typing import Final

from sidecar.log import printable

_GAP: Final = "  "

_LEAST: Final = 12
"""Columns below which a column is no longer narrowed."""


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None, *, spare: Collection[str] = ()
) -> list[str]:
    """Return the lines of a table; `spare` are the heads of columns that are left out where the page is too narrow."""
    return list(itertools.chain.from_iterable(table_rows(head, rows, width, spare=spare)))


def table_rows(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None, *, spare: Collection[str] = ()
) -> list[list[str]]:
    """Return the lines of each row of a table, the head first.

    Cells are other people's words: what is not printable is escaped. A table without a `width` has one line for each
    row; a table that is too wide for its page loses the spare columns first, and then wraps its widest cells.
    """
    cells = [list(head), *([printable(cell) for cell in row] for row in rows)]
    widths = _widths(cells)
    for name in (each for each in head if each in spare):
        if width is None or _total(widths) <= width:
            break
        place = cells[0].index(name)
        cells = [[*row[:place], *row[place + 1 :]] for row in cells]
        widths = _widths(cells)
    if width is not None:
        widths = _narrowed(widths, width)
    return [_row(row, widths) for row in cells]


def without_empty(
    head: Sequence[str], rows: Sequence[Sequence[str]], empty: str = "-"
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows without the columns in which every cell is `empty`."""
    kept = [place for place in range(len(head)) if any(row[place] != empty for row in rows)]
    return [head[place] for place in kept], [[row[place] for place in kept] for row in rows]


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _narrowed(widths: Sequence[int], width: int) -> list[int]:
    """Return widths that fit into `width` where possible: the widest columns give way first."""
    made = list(widths)
    while _total(made) > width and max(made) > _LEAST:
        made[made.index(max(made))] -= 1
    return made


def _row(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    parts = [_cell(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = itertools.zip_longest(*parts, fillvalue="")
    return [_GAP.join(f"{part:<{width}}" for part, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def _cell(cell: str, width: int) -> list[str]:
    """Return the lines of a cell: one if it fits, whatever spaces it has."""
    return [cell] if len(cell) <= width else textwrap.wrap(cell, width, break_on_hyphens=False)
