"""What is shown of the status: the mark, the order, the filter, the panel. Pure: view and event in, next view out."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from sidecar.cli.status_choice import ALL, Choice
from sidecar.cli.top.input_events import Event, KeyPress, Mouse

replace = msgspec.structs.replace

WHEEL_LINES: Final = 3

MOST_TYPED: Final = 200
"""Characters of a filter: a pasted file is none."""


class Panel(enum.Enum):
    """What takes the screen."""

    TABLE = enum.auto()
    DETAILS = enum.auto()
    MAP = enum.auto()
    DISTURBED = enum.auto()
    HELP = enum.auto()


class ViewAsk(enum.Enum):
    """What an event asks of the program, not of the view."""

    NOTHING = enum.auto()
    QUIT = enum.auto()
    MEASURE = enum.auto()
    REDRAW = enum.auto()


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Where things stood on the screen that the user saw, in lines and cells from 0.

    `ids` are all rows in their order, of which `page` were shown from the row `first` on, below the line `table_line`
    with the `heads`: name, first cell, and the cell behind the last. `length` and `height` are the lines of a panel,
    and how many of them are shown. `sorts` are the columns by which the table can be sorted.
    """

    ids: tuple[str, ...] = ()
    first: int = 0
    page: int = 1
    table_line: int = -1
    heads: tuple[tuple[str, int, int], ...] = ()
    sorts: tuple[str, ...] = ()
    length: int = 0
    height: int = 1


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The view. `marked` is an id, and `at` its row when it was last seen, for when it is gone. `first` is the first
    row that is shown, `top` the first line of a panel. `choice` is that of the command line, `only_owners` a key's.
    """

    panel: Panel = Panel.TABLE
    marked: str = ""
    at: int = 0
    first: int = 0
    top: int = 0
    sort: str = ""
    is_reversed: bool = False
    wanted: str = ""
    is_typing: bool = False
    is_paused: bool = False
    only_owners: bool = False
    choice: Choice = ALL
    ask: ViewAsk = ViewAsk.NOTHING


_STEPS: Final[Mapping[str, int]] = {"up": -1, "k": -1, "down": 1, "j": 1}
_PAGES: Final[Mapping[str, int]] = {"page-up": -1, "b": -1, "page-down": 1, " ": 1}
_ENDS: Final[Mapping[str, int]] = {"home": -1, "g": -1, "end": 1, "G": 1}
_BACK: Final = ("escape", "left", "backspace", "q", "Q")
_PANELS: Final[Mapping[str, Panel]] = {
    "enter": Panel.DETAILS,
    "right": Panel.DETAILS,
    "m": Panel.MAP,
    "?": Panel.HELP,
    "h": Panel.HELP,
}

Move: TypeAlias = int
"""Rows, down if it is above 0."""

_FAR: Final[Move] = 1_000_000


def row_of(view: View, ids: tuple[str, ...]) -> int:
    """Return the row of the mark: that of the marked one, or the one that took its place; -1 without rows."""
    return ids.index(view.marked) if view.marked in ids else min(view.at, len(ids) - 1)


def first_of(view: View, ids: tuple[str, ...], page: int) -> int:
    """Return the first row to show, so that the mark is seen and no room is lost."""
    row = row_of(view, ids)
    first = min(max(view.first, row - page + 1), max(row, 0))
    return max(0, min(first, len(ids) - page))


def after(view: View, event: Event, layout: Layout) -> View:
    """Return the view after this event."""
    view = replace(view, ask=ViewAsk.NOTHING)
    if isinstance(event, Mouse):
        return _after_mouse(view, event, layout)
    if view.is_typing:
        return _after_typing(view, event)
    match event.name:
        case "redraw":
            return replace(view, ask=ViewAsk.REDRAW)
        case "p":
            return replace(view, is_paused=not view.is_paused)
        case "d":
            # What was measured before, or goes on, is shown first.
            is_open = view.panel is Panel.DISTURBED
            return replace(view, panel=Panel.DISTURBED, top=view.top if is_open else 0, ask=ViewAsk.MEASURE)
        case name if view.panel is Panel.TABLE:
            return _after_key(view, name, layout)
        case name:
            return _after_panel_key(view, name, layout)


def _after_key(view: View, name: str, layout: Layout) -> View:
    if (rows := _rows(name, layout.page)) is not None:
        return _moved(view, rows, layout)
    if name in _PANELS:
        return replace(view, panel=_PANELS[name], top=0)
    match name:
        case "q" | "Q":
            return replace(view, ask=ViewAsk.QUIT)
        case "/":
            return replace(view, is_typing=True)
        case "escape" | "erase":
            return replace(view, wanted="")
        case "s" | "tab" if layout.sorts:
            return _sorted(view, _next(view.sort, layout.sorts))
        case "r":
            return replace(view, is_reversed=not view.is_reversed)
        case "o":
            return replace(view, only_owners=not view.only_owners)
        case _:
            return view


def _after_panel_key(view: View, name: str, layout: Layout) -> View:
    if (lines := _rows(name, layout.height)) is not None:
        return replace(view, top=_within(view.top + lines, layout.length - layout.height))
    panel = _PANELS.get(name)
    if name in _BACK or panel is view.panel:
        return replace(view, panel=Panel.TABLE, top=0)
    return replace(view, panel=panel, top=0) if panel else view


def _after_typing(view: View, key: KeyPress) -> View:
    match key.name:
        case "enter":
            return replace(view, is_typing=False)
        case "escape":
            return replace(view, is_typing=False, wanted="")
        case "erase":
            return replace(view, wanted="")
        case "backspace":
            return replace(view, wanted=view.wanted[:-1]) if view.wanted else replace(view, is_typing=False)
        case name if len(name) == 1 and len(view.wanted) < MOST_TYPED:
            return replace(view, wanted=view.wanted + name)
        case _:
            return view


def _after_mouse(view: View, mouse: Mouse, layout: Layout) -> View:
    lines = {"up": -WHEEL_LINES, "down": WHEEL_LINES}.get(mouse.what)
    if view.panel is not Panel.TABLE:
        return view if lines is None else replace(view, top=_within(view.top + lines, layout.length - layout.height))
    if lines is not None:
        return _scrolled(view, lines, layout)
    if mouse.row == layout.table_line:
        names = [name for name, start, end in layout.heads if start <= mouse.column < end and name in layout.sorts]
        return _sorted(view, names[0]) if names else view
    row = layout.first + mouse.row - layout.table_line - 1
    is_shown = layout.table_line >= 0 and layout.first <= row < min(len(layout.ids), layout.first + layout.page)
    if not is_shown or (layout.heads and mouse.column >= layout.heads[-1][2]):
        return view
    return replace(view, marked=layout.ids[row], at=row, first=layout.first)


def _rows(name: str, page: int) -> Move | None:
    """Return by how many rows a key moves; None if it does not."""
    if name in _STEPS:
        return _STEPS[name]
    if name in _PAGES:
        return _PAGES[name] * max(1, page - 1)
    return _ENDS[name] * _FAR if name in _ENDS else None


def _moved(view: View, rows: Move, layout: Layout) -> View:
    if not layout.ids:
        return view
    row = _within(row_of(view, layout.ids) + rows, len(layout.ids) - 1)
    moved = replace(view, marked=layout.ids[row], at=row, first=layout.first)
    return replace(moved, first=first_of(moved, layout.ids, layout.page))


def _scrolled(view: View, lines: int, layout: Layout) -> View:
    """Return the view with other rows on the screen; the mark stays on it."""
    if not layout.ids:
        return view
    first = _within(layout.first + lines, len(layout.ids) - layout.page)
    row = min(max(row_of(view, layout.ids), first), first + layout.page - 1, len(layout.ids) - 1)
    return replace(view, first=first, marked=layout.ids[row], at=row)


def _sorted(view: View, column: str) -> View:
    return replace(view, sort=column, is_reversed=not view.is_reversed if column == view.sort else False)


def _next(column: str, columns: tuple[str, ...]) -> str:
    """Return the next column; "" after the last, which is the order of grants."""
    order = ("", *columns)
    return order[(order.index(column) + 1) % len(order)] if column in order else ""


def _within(value: int, most: int) -> int:
    return max(0, min(value, most))
