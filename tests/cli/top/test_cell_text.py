"""Text in cells: wide and combining characters, colours, and lines that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli.top.cell_text import bold, cells_of, cut_to, fitted, folded, reverse, side_by_side

words = st.text(alphabet=st.sampled_from("ab 日本é\u0301خ🦀-"), max_size=60)


@pytest.mark.parametrize(
    ("text", "size"), [("web", 3), ("日本", 4), ("e\u0301", 1), ("خادم", 4), (bold("web"), 3), ("", 0)]
)
def test_a_text_takes_so_many_cells(text: str, size: int) -> None:
    """A wide character takes two, a combining one none, a colour none."""
    assert cells_of(text) == size


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("voice", 5, "voice"),
        ("a-long-name", 8, "a-lon..."),
        ("日本語コンテナ", 8, "日本 ..."),
        ("voice", 3, "voi"),
        ("x", 0, ""),
    ],
)
def test_a_text_is_cut_between_characters(text: str, width: int, shown: str) -> None:
    """Half of a wide one is a space; three dots where there is room for them."""
    assert cut_to(text, width) == shown


def test_a_cut_ends_a_colour() -> None:
    """Otherwise it would run into the next column."""
    assert cut_to("\x1b[31mproblem that is long", 10) == "\x1b[31mproblem\x1b[0m..."


@given(text=words, width=st.integers(0, 30), styled=st.sampled_from([str, bold, reverse]))
def test_a_line_fits_exactly(text: str, width: int, styled: object) -> None:
    line = styled(text)  # type: ignore[operator]
    assert cells_of(fitted(line, width)) == width
    assert cells_of(cut_to(line, width)) <= width


@given(text=words, width=st.integers(4, 30))
def test_folding_loses_nothing(text: str, width: int) -> None:
    """No line is too wide, and the words are all there, in their order."""
    lines = folded(text, width, "  ")
    assert all(cells_of(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_columns_stand_side_by_side() -> None:
    """However long each is."""
    assert side_by_side(["a", "日"], ["1", "2", "3"], 3, "|") == ["a  |1", "日 |2", "   |3"]
