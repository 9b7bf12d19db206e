"""What the keys do to the view of `top`."""

from __future__ import annotations

from functools import reduce

import pytest

from sidecar.cli.top.input_events import KeyPress, Mouse
from sidecar.cli.top.view import MOST_TYPED, Layout, Panel, View, ViewAsk, after, first_of, row_of

IDS = tuple(f"id-{number}" for number in range(100))
LAYOUT = Layout(ids=IDS, page=10, table_line=5, heads=(("NAME", 3, 20), ("STATE", 22, 60)), sorts=("NAME", "STATE"))
PANEL = Layout(ids=IDS, length=50, height=20)


def typed(view: View, *keys: str, layout: Layout = LAYOUT) -> View:
    return reduce(lambda seen, key: after(seen, KeyPress(key), layout), keys, view)


@pytest.mark.parametrize(
    ("keys", "marked"),
    [
        (("j",), "id-1"),
        (("down", "down", "k"), "id-1"),
        (("up",), "id-0"),
        (("page-down",), "id-9"),
        (("G",), "id-99"),
        (("G", "j"), "id-99"),
        (("end", "home"), "id-0"),
    ],
)
def test_keys_move_the_mark_within_the_rows(keys: tuple[str, ...], marked: str) -> None:
    """Never past the first or the last."""
    assert typed(View(), *keys).marked == marked


def test_the_mark_follows_its_container_and_stays_where_it_was_when_that_is_gone() -> None:
    """Rows come, go, and are sorted otherwise."""
    view = View(marked="id-5", at=5)
    assert row_of(view, IDS[3:]) == 2
    assert row_of(view, (*IDS[:5], *IDS[6:])) == 5
    assert row_of(view, IDS[:2]) == 1
    assert row_of(view, ()) == -1


def test_the_screen_scrolls_so_far_that_the_mark_is_seen() -> None:
    """And no further; a table that became shorter fills the screen."""
    assert first_of(View(marked="id-50", first=45), IDS, 10) == 45
    assert first_of(View(marked="id-60", first=45), IDS, 10) == 51
    assert first_of(View(marked="id-3", first=45), IDS, 10) == 3
    assert first_of(View(marked="id-8", first=8), IDS[:12], 10) == 2


def test_the_wheel_scrolls_and_the_mark_stays_on_the_screen() -> None:
    """Three rows at a time."""
    view = after(View(marked="id-0"), Mouse("down", 5, 9), LAYOUT)
    assert (view.first, view.marked) == (3, "id-3")
    assert after(view, Mouse("up", 5, 9), Layout(ids=IDS, page=10, first=3)).first == 0


def test_a_filter_is_typed() -> None:
    """Every key is a character of it, until Enter; Escape clears it."""
    view = typed(View(), "/", "q", "d", "backspace", "x")
    assert (view.wanted, view.is_typing, view.ask) == ("qx", True, ViewAsk.NOTHING)
    kept = typed(view, "enter")
    assert (kept.wanted, kept.is_typing) == ("qx", False)
    assert typed(kept, "escape").wanted == ""
    assert typed(view, "escape") == View()
    assert len(typed(view, *"y" * (MOST_TYPED + 9)).wanted) == MOST_TYPED


def test_columns_are_sorted_in_turn() -> None:
    """After the last one the order of grants comes back; twice the same head is the other way round."""
    assert [typed(View(), *"s" * presses).sort for presses in range(4)] == ["", "NAME", "STATE", ""]
    once = after(View(), Mouse("press", 25, 5), LAYOUT)
    again = after(once, Mouse("press", 25, 5), LAYOUT)
    assert (once.sort, once.is_reversed, again.is_reversed) == ("STATE", False, True)
    assert typed(once, "r").is_reversed


@pytest.mark.parametrize(("key", "panel"), [("?", Panel.HELP), ("m", Panel.MAP), ("enter", Panel.DETAILS)])
def test_a_panel_opens_scrolls_and_closes(key: str, panel: Panel) -> None:
    """`q` goes back there, and ends the program only from the table."""
    opened = typed(View(), key)
    assert opened.panel is panel
    assert typed(opened, "page-down", "page-down", layout=PANEL).top == 30
    assert typed(opened, "j", "k", "k", layout=PANEL).top == 0
    assert after(opened, Mouse("down", 0, 0), PANEL).top == 3
    for back in ("q", "escape", key):
        closed = typed(opened, back, layout=PANEL)
        assert (closed.panel, closed.ask) == (Panel.TABLE, ViewAsk.NOTHING)
    assert typed(View(), "q").ask is ViewAsk.QUIT


def test_what_is_asked_is_asked_once() -> None:
    """The next event asks for something else, or nothing."""
    asked = typed(View(), "d")
    assert (asked.ask, asked.panel) == (ViewAsk.MEASURE, Panel.DISTURBED)
    assert typed(asked, "j", layout=PANEL).ask is ViewAsk.NOTHING
    assert typed(View(), "redraw").ask is ViewAsk.REDRAW
    assert typed(View(), "p").is_paused
    assert not typed(View(), "p", "p").is_paused
