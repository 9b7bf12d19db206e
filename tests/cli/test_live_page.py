"""A page on a terminal: which lines of a long one are shown, and what the keys do."""

from __future__ import annotations

import pytest

from sidecar.cli.live_page import rows_of, scrolled, window
from sidecar.cli.top.input_events import KeyPress, Mouse

LONG = [f"line {number}" for number in range(1, 101)]


def test_a_page_that_fits_is_shown_whole() -> None:
    """No line is lost to a note on scrolling."""
    assert window(LONG[:20], 0, 20) == LONG[:20]
    assert scrolled(7, 1, 20, 20) == 0


def test_a_longer_page_says_which_lines_are_shown() -> None:
    """And the keys."""
    shown = window(LONG, 10, 20)
    assert len(shown) == 20
    assert shown[0] == "line 11"
    assert shown[-1] == "lines 11-29 of 100: arrows, space and b scroll, q quits"


@pytest.mark.parametrize(
    ("top", "key", "expected"),
    [(0, "j", 1), (0, "k", 0), (5, "up", 4), (0, " ", 19), (30, "b", 11), (75, " ", 81), (5, "x", 5), (99, "", 81)],
)
def test_keys_scroll_within_the_page(top: int, key: str, expected: int) -> None:
    """Never past its first line, and never past the last screenful, also when the page becomes shorter."""
    assert scrolled(top, rows_of(KeyPress(key), 20), 100, 20) == expected


def test_the_wheel_scrolls_three_lines() -> None:
    """A press of the mouse does nothing here."""
    assert [rows_of(Mouse(what, 0, 0), 20) for what in ("up", "down", "press")] == [-3, 3, 0]
