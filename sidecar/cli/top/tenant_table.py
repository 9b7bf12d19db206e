"""The table of containers and units: which rows, in which order, and what stands in their cells. Pure.

A row is one line: a cell that is too long is cut, since the marked row is shown whole beside the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias

from sidecar.cli.cmd_status import state_of
from sidecar.cli.machine_drawing import Paint, letters_of
from sidecar.cli.status_choice import is_owner
from sidecar.cli.top.cell_text import bold, cells_of, cut_to, fitted, reverse
from sidecar.cli.top.time_lines import most_held, time_line
from sidecar.cli.top.view import View
from sidecar.decide.facts import ViewKind
from sidecar.log import printable
from sidecar.natural_order import natural
from sidecar.status.document import ContainerStatus, SharingStatus, Status
from sidecar.status.grant_history import HOUR, GrantHistory
from sidecar.status.sight import Sight

LEAST_HOUR: Final = 8
_MOST_HOUR: Final = 60
"""Cells of the time line of a row."""

_GAP: Final = "  "
_LEAST_NAME: Final = 12
_MOST_NAME: Final = 40
_MOST_CPUS: Final = 24
_LEAST_STATE: Final = 14

MARK: Final = ">"
"""Before the marked row: a terminal may have no reverse."""

HIGHEST: Final = 1 << 30
"""Behind all CPUs, in the order."""


class TenantRow(NamedTuple):
    """A row: the id, the letter on the map, and the texts of its cells by column. HOUR is drawn when there is room."""

    id: str
    letter: str
    cells: Mapping[str, str]
    tenant: ContainerStatus


TableHead: TypeAlias = tuple[tuple[str, int, int], ...]
"""Columns: name, first cell, and the cell behind the last."""

COLUMNS: Final = ("NAME", "KIND", "CPUS", "SIZE", "RANGE", "USE", "HOUR", "STATE")
_RIGHT: Final = ("SIZE", "RANGE", "USE")
_OPTIONAL: Final = ("SIZE", "RANGE", "USE")
"""Columns that are left out where no row has anything in them."""

_KEYS: Final[Mapping[str, Callable[[TenantRow], Any]]] = {
    "NAME": lambda row: natural(row.tenant.name),
    "KIND": lambda row: row.cells["KIND"],
    "CPUS": lambda row: min(row.tenant.cpus, default=HIGHEST),
    "SIZE": lambda row: -max(len(row.tenant.granted), row.tenant.asked),
    "USE": lambda row: -(row.tenant.load.use if row.tenant.load else -1.0),
    "STATE": lambda row: row.cells["STATE"],
}
"""How a column sorts: what is largest comes first, where that is asked for."""


def tenant_rows(status: Status, view: View, now: datetime, sight: Sight) -> list[TenantRow]:
    """Return the rows in their order: those with CPUs of their own or that ask for some, other containers, units."""
    letters = letters_of(status)
    chosen = (each for each in status.rows if view.choice.has(each))
    rows = [_row(each, letters.get(each.id, " "), now, status.waiting, sight) for each in chosen]
    wanted = view.wanted.casefold()
    rows = [row for row in rows if _fits(row, wanted) and (is_owner(row.tenant) or not view.only_owners)]
    rows.sort(key=_rank)
    if view.sort in _KEYS:
        rows.sort(key=_KEYS[view.sort])
    return rows[::-1] if view.is_reversed else rows


def _rank(row: TenantRow) -> tuple[int, int]:
    """Return where a row stands if no column is sorted: by the order of grants, which letters follow, too."""
    if row.tenant.granted:
        return 0, row.tenant.since
    return (3 if row.tenant.kind is ViewKind.UNIT else 1 if row.tenant.asked else 2), 0


def table_head(rows: Sequence[TenantRow], width: int, *, has_hour: bool) -> TableHead:
    """Return the columns that fit into this width: name, first cell, and the cell behind the last."""
    names = [name for name in COLUMNS if name not in _OPTIONAL or any(row.cells[name] != "-" for row in rows)]
    names = [name for name in names if name != "HOUR" or has_hour]
    widths = {name: _width(name, rows) for name in names}
    start = len(MARK) + 2
    for spare in ("HOUR", "RANGE", "KIND", "USE", "SIZE"):
        if start + sum(widths.values()) + len(_GAP) * (len(widths) - 1) <= width:
            break
        if spare == "HOUR" or spare not in widths:
            continue
        # The state is cut before a column is left out.
        room = width - start - sum(widths.values()) - len(_GAP) * (len(widths) - 1) + widths["STATE"]
        if room >= _LEAST_STATE:
            break
        del widths[spare]
    left = width - start - sum(widths.values()) - len(_GAP) * (len(widths) - 1)
    if "HOUR" in widths:
        # It takes what no other column needs.
        grown = min(_MOST_HOUR, LEAST_HOUR + left)
        if grown < LEAST_HOUR:
            left += widths.pop("HOUR") + len(_GAP)
        else:
            left -= grown - LEAST_HOUR
            widths["HOUR"] = grown
    # A name is cut before the state says nothing: the marked one's is whole beside or below the table.
    cut = max(0, min(min(widths["STATE"], _LEAST_STATE) - widths["STATE"] - left, widths["NAME"] - _LEAST_NAME))
    widths["NAME"] -= cut
    widths["STATE"] = max(1, widths["STATE"] + left + cut)
    head, at = [], start
    for name, size in widths.items():
        head.append((name, at, min(width, at + size)))
        at += size + len(_GAP)
    return tuple(each for each in head if each[1] < each[2])


def head_line(head: TableHead, view: View, width: int) -> str:
    """Return the line of heads; the sorted column has an arrow of characters."""
    arrow = "^" if view.is_reversed else "v"
    cells = [(f"{name}{arrow}" if name == view.sort else name, start, end, name in _RIGHT) for name, start, end in head]
    return bold(fitted(_line("", cells), width))


def row_line(
    row: TenantRow,
    head: TableHead,
    width: int,
    *,
    is_marked: bool,
    history: GrantHistory | None,
    bars: str,
    paint: Paint,
) -> str:
    """Return the line of a row."""
    cells = dict(row.cells)
    for name, start, end in head:
        if name == "HOUR" and history:
            cells[name] = time_line(history, row.id, end - start, HOUR, bars) if most_held(history, row.id) else ""
    line = _line(
        f"{MARK if is_marked else ' '}{row.letter}",
        [(cells[name], start, end, name in _RIGHT) for name, start, end in head],
    )
    line = fitted(line, width)
    if is_marked:
        return reverse(line)
    return line if row.letter == " " else paint(line, row.letter)


def _line(begin: str, cells: Sequence[tuple[str, int, int, bool]]) -> str:
    line = begin
    for text, start, end, is_right in cells:
        line = fitted(line, start)
        short = cut_to(text, end - start)
        line += " " * (end - start - cells_of(short)) + short if is_right else short
    return line


def _row(each: ContainerStatus, letter: str, now: datetime, waiting: int, sight: Sight) -> TenantRow:
    is_elastic = each.floor < each.ceiling
    size = str(len(each.granted)) if each.granted else f"0 of {each.asked}" if each.asked else "-"
    cells = {
        "NAME": printable(each.name),
        "KIND": "unit" if each.kind is ViewKind.UNIT and each.sharing is SharingStatus.SHARED else each.sharing.value,
        "CPUS": str(each.cpus) or "-",
        "SIZE": size,
        "RANGE": f"{each.floor}-{each.ceiling}" if is_elastic else "-",
        "USE": f"{each.load.use:.1f}" if each.load else "-",
        "HOUR": "",
        "STATE": printable(sight.state(state_of(each, now, waiting), {each.name})),
    }
    return TenantRow(each.id, letter, cells, each)


def _fits(row: TenantRow, wanted: str) -> bool:
    tenant, cells = row.tenant, row.cells
    texts = (tenant.name, tenant.id, tenant.project, cells["NAME"], cells["KIND"], cells["STATE"])
    return not wanted or any(wanted in text.casefold() for text in texts)


def _width(name: str, rows: Sequence[TenantRow]) -> int:
    if name == "HOUR":
        return LEAST_HOUR
    widest = max((cells_of(row.cells[name]) for row in rows), default=0)
    # Beside a head there is room for its arrow.
    least = len(name) + 1 if name in _KEYS else len(name)
    if name == "NAME":
        return max(_LEAST_NAME, min(widest, _MOST_NAME))
    return max(least, min(widest, _MOST_CPUS) if name == "CPUS" else widest)
