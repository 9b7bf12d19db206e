"""A table in text: columns as wide as their widest cell, the last one cut to the width of the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.log import printable
from sidecar.words.counts import cut


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int = 100) -> list[str]:
    """Return the lines of a table. Cells are other people's words: what is not printable is escaped, what is long is
    cut.
    """
    cells = [list(head), *([printable(cell) for cell in row] for row in rows)]
    widths = [min(40, max(len(row[column]) for row in cells)) for column in range(len(head))]
    return [_line(row, widths, width) for row in cells]


def _line(row: Sequence[str], widths: Sequence[int], width: int) -> str:
    first = "  ".join(f"{cut(cell, size):<{size}}" for cell, size in zip(row[:-1], widths[:-1], strict=True))
    return f"{first}  {cut(row[-1], max(20, width - len(first) - 2))}".rstrip()
