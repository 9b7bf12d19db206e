"""A whole screen of `top`: what is known and how it is viewed, as lines for a terminal of some size. Pure.

No line is wider than the screen, there are never more than it has, and what has no room is named. From top to bottom:
the headline, the map, what is wrong, the table, the marked container, the keys. On a wide screen the marked container
stands beside the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from sidecar.cli.cmd_status import freshness, headline, no_containers, problem_lines
from sidecar.cli.machine_drawing import Paint
from sidecar.cli.top.cell_text import bold, cells_of, cut_to, fitted, folded, reverse, side_by_side, uncoloured
from sidecar.cli.top.key_help import HELP, hints
from sidecar.cli.top.map_lines import map_lines, whole_map
from sidecar.cli.top.measurement import Measurement, measurement_lines
from sidecar.cli.top.tenant_details import tenant_details
from sidecar.cli.top.tenant_table import TableHead, TenantRow, head_line, row_line, table_head, tenant_rows
from sidecar.cli.top.view import Layout, Panel, View, first_of, row_of
from sidecar.log import printable
from sidecar.status.document import Status
from sidecar.status.grant_history import GrantHistory
from sidecar.status.problem_list import problems_of
from sidecar.status.sight import Sight
from sidecar.words.counts import counted

LEAST_WIDTH: Final = 40
LEAST_HEIGHT: Final = 12
"""Of a screen that has room for a map, a table of some rows, and the marked one."""

WIDE: Final = 150
"""Cells from which on the marked container stands beside the table."""

_HOUR_WIDTH: Final = 100
"""Cells from which on each row has its time line."""

_LEAST_ROWS: Final = 3
_GAP: Final = " | "


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What is known: the document, the time for which it is shown, and what else there is. `history_flaw` tells why
    there is no history.
    """

    status: Status
    sight: Sight
    now: datetime
    history: GrantHistory | None = None
    history_flaw: str = ""
    measurement: Measurement | None = None


class Screen(msgspec.Struct, frozen=True, kw_only=True):
    """The lines, and where things stand in them."""

    lines: tuple[str, ...]
    layout: Layout


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a terminal can show: its size, colours, and the characters of time lines."""

    width: int
    height: int
    paint: Paint
    bars: str


class Still(msgspec.Struct, frozen=True, kw_only=True):
    """What of a screen stays as it is while only the time and the mark are others: most of the work, on a large host.
    `heads` are the lines of the headline, not cut, and `columns` those of the table.
    """

    status: Status
    rows: list[TenantRow]
    columns: TableHead
    heads: list[str]
    drawing: list[str]
    problems: list[str]


def drawn(seen: Seen, view: View, look: Look, still: Still | None = None) -> Screen:
    """Return the screen; `still` is its part of another time, if `is_still` says that it holds."""
    if look.width < LEAST_WIDTH or look.height < LEAST_HEIGHT:
        return _too_small(look)
    still = still or still_of(seen, view, look)
    told = msgspec.structs.replace(seen, status=still.status)
    made = _table(told, view, look, still) if view.panel is Panel.TABLE else _panel(told, view, look, still.rows)
    lines = tuple(cut_to(line, look.width) for line in made.lines[: look.height])
    return Screen(lines=lines, layout=made.layout)


def still_of(seen: Seen, view: View, look: Look) -> Still:
    """Return the part of the screen that stays."""
    status, width, height = seen.sight.told(seen.status), look.width, look.height
    rows = tenant_rows(status, view, seen.now, seen.sight)
    return Still(
        status=status,
        rows=rows,
        columns=table_head(rows, _table_width(width), has_hour=width >= _HOUR_WIDTH and seen.history is not None),
        heads=headline(status, seen.sight, None),
        drawing=map_lines(status, width, max(3, height // 3), look.paint),
        problems=_problems(status, width, max(1, height // 8)),
    )


def is_still(before: tuple[Seen, View, Look], seen: Seen, view: View, look: Look) -> bool:
    """Return whether the part that stays is that of before. While a take counts down, the rows do not stay."""
    was, viewed, looked = before
    return (
        was.status is seen.status
        and (was.sight, was.history is None, looked) == (seen.sight, seen.history is None, look)
        and _chosen_by(viewed) == _chosen_by(view)
        and not any(each.leaving for each in seen.status.rows)
    )


def _chosen_by(view: View) -> View:
    """Return the view without what has no say in which rows there are, and in which order."""
    return View(
        sort=view.sort,
        is_reversed=view.is_reversed,
        wanted=view.wanted,
        only_owners=view.only_owners,
        choice=view.choice,
    )


def marked_row(rows: Sequence[TenantRow], view: View) -> TenantRow | None:
    """Return the row of the mark."""
    row = row_of(view, tuple(each.id for each in rows))
    return rows[row] if row >= 0 else None


def _too_small(look: Look) -> Screen:
    said = f"{look.width}x{look.height} is too small: top needs {LEAST_WIDTH}x{LEAST_HEIGHT}; q ends it"
    lines = folded(said, max(1, look.width))[: max(0, look.height)]
    return Screen(lines=tuple(cut_to(line, look.width) for line in lines), layout=Layout())


def _table_width(width: int) -> int:
    return width * 3 // 5 if width >= WIDE else width


def _table(seen: Seen, view: View, look: Look, still: Still) -> Screen:
    width, height, rows, head = look.width, look.height, still.rows, still.columns
    above = _above(seen, view, look, still)
    bottom = _bottom(view, width)
    left = height - len(above) - len(bottom)
    is_wide = width >= WIDE
    table_width = _table_width(width)
    details_width = width - table_width - len(_GAP) if is_wide else width
    marked = marked_row(rows, view)
    details = _details(seen, marked, details_width, look.bars) if marked else _without_rows(seen, view, width)
    # The table keeps three fifths of the room, if it has so many rows.
    below = 0 if is_wide else min(len(details), left - 1 - min(max(len(rows), 1), (left - 1) * 3 // 5))
    below = 0 if left - 1 - below < min(_LEAST_ROWS, len(rows)) else below
    page = max(1, left - below - 1)
    ids = tuple(row.id for row in rows)
    first = first_of(view, ids, page)
    shown = rows[first : first + page]
    table = [
        head_line(head, view, table_width),
        *(_row(seen, each, head, table_width, look, is_marked=each is marked) for each in shown),
    ]
    if is_wide:
        body = side_by_side(table, _clipped(details, left), table_width, _GAP)
    else:
        body = [*table, *([_ruled(details[0], width), *_clipped(details[1:], below - 1)] if below else [])]
    layout = Layout(
        ids=ids,
        first=first,
        page=page,
        table_line=len(above),
        heads=head,
        sorts=tuple(name for name, _, _ in head if name not in ("RANGE", "HOUR")),
    )
    lines = [*above, *body[:left]]
    lines += [""] * (height - len(bottom) - len(lines))
    return Screen(lines=(*lines, *bottom), layout=layout)


def _row(seen: Seen, row: TenantRow, head: TableHead, width: int, look: Look, *, is_marked: bool) -> str:
    return row_line(row, head, width, is_marked=is_marked, history=seen.history, bars=look.bars, paint=look.paint)


def _panel(seen: Seen, view: View, look: Look, rows: list[TenantRow]) -> Screen:
    """Return a screen of one text that scrolls."""
    width = look.width
    marked = marked_row(rows, view)
    match view.panel:
        case Panel.HELP:
            title, text = "keys", [line for each in HELP for line in folded(each, width, " " * 16)]
        case Panel.MAP:
            title, text = "the machine", whole_map(seen.status, width, look.paint)
        case Panel.DISTURBED:
            title, text = "what disturbs it", measurement_lines(seen.measurement, width)
        case _:
            title = "one container"
            text = _details(seen, marked, width, look.bars) if marked else _without_rows(seen, view, width)
    height = look.height - 2
    top = max(0, min(view.top, len(text) - height))
    where = f"{title}, lines {top + 1}-{top + min(height, len(text))} of {len(text)}" if len(text) > height else title
    lines = [bold(fitted(where, width)), *text[top : top + height]]
    lines += [""] * (look.height - 1 - len(lines))
    layout = Layout(ids=tuple(row.id for row in rows), length=len(text), height=height)
    return Screen(lines=(*lines, reverse(fitted(hints(view, width), width))), layout=layout)


def _above(seen: Seen, view: View, look: Look, still: Still) -> list[str]:
    """Return what stands above the table."""
    status, width, height = seen.status, look.width, look.height
    whole = [line for each in still.heads for line in folded(each, width, "    ")]
    if len(whole) > (most := max(1, height // 18)):
        whole = [cut_to(each, width) for each in still.heads[:most]]
    fresh = freshness(status, seen.now, seen.sight)
    if view.is_paused:
        fresh = f"PAUSED, p goes on; as it was at {seen.now.astimezone():%H:%M:%S}: {fresh}"
    if status.acknowledged or status.forced:
        fresh += f"; takes so far: {status.acknowledged} acknowledged, {status.forced} forced"
    if view.choice.words:
        fresh = f"only what {' and '.join(view.choice.words)}; {fresh}"
    fresh = cut_to(printable(fresh), width)
    return [*whole, look_at(fresh) if seen.sight.is_last_word else fresh, *still.drawing, *still.problems]


def _problems(status: Status, width: int, height: int) -> list[str]:
    found = problems_of(status)
    lines = [line for each in found for said in problem_lines([each], None) for line in folded(said, width, "    ")]
    if len(lines) <= height:
        return [look_at(line) for line in lines]
    if height == 1:
        return [look_at(cut_to(f"{counted(len(found), 'problem')}: {lines[0]}", width))]
    rest = f"{counted(len(found), 'problem')}; mark a container for its own, or: cpuset-sidecar status --problems"
    return [look_at(line) for line in (*lines[: height - 1], cut_to(rest, width))]


def look_at(line: str) -> str:
    """Return a line so that it is looked at: something is wrong."""
    return bold(line)


def _details(seen: Seen, marked: TenantRow, width: int, bars: str) -> list[str]:
    lines = tenant_details(marked.tenant, seen.status, seen.sight, seen.now, seen.history, width, bars)
    if seen.history_flaw:
        lines += folded(f"no history: {printable(seen.history_flaw)}", width, "    ")
    return lines


def _without_rows(seen: Seen, view: View, width: int) -> list[str]:
    filters = [*view.choice.words]
    filters += [f"has {view.wanted!r} in its name, id, project, kind or state"] if view.wanted else []
    filters += ["has or asks for CPUs of its own"] if view.only_owners else []
    cures = ["Escape clears the filter"] if view.wanted else []
    cures += ["o shows all"] if view.only_owners else []
    if filters and seen.status.rows:
        cure = f": {', '.join(cures)}" if cures else ""
        return folded(printable(f"nothing {' and '.join(filters)}{cure}"), width)
    return folded(no_containers(seen.status), width)


def _bottom(view: View, width: int) -> list[str]:
    if view.is_typing:
        return [reverse(fitted(f"/{printable(view.wanted)}_", width))]
    return [reverse(fitted(hints(view, width), width))]


def _clipped(lines: Sequence[str], height: int) -> list[str]:
    if len(lines) <= height:
        return list(lines)
    return [*lines[: height - 1], f"{counted(len(lines) - height + 1, 'line')} more: Enter"] if height > 0 else []


def _ruled(line: str, width: int) -> str:
    """Return a line that divides what is above it from what it begins."""
    text = f"--- {cut_to(uncoloured(line), max(0, width - 5))} "
    return bold(text + "-" * (width - cells_of(text)))
