"""Tables: whole in a pipe, wrapped on a narrow page, and never cut."""

from __future__ import annotations

from sidecar.cli.table import table, table_rows, without_empty

HEAD = ("NAME", "ID", "STATE")
ROW = ("web", "0123456789ab", "it waits for another container to leave its CPUs")


def test_without_a_width_a_row_is_a_line() -> None:
    """However long its cells are."""
    assert table(HEAD, [("n" * 200, "i", "s" * 300)])[1] == "n" * 200 + "  i   " + "s" * 300


def test_spare_columns_go_first() -> None:
    """And only where the page is too narrow."""
    assert table(HEAD, [ROW], 80, spare=("ID",))[0].split() == list(HEAD)
    assert table(HEAD, [ROW], 60, spare=("ID",)) == [
        "NAME  STATE",
        "web   it waits for another container to leave its CPUs",
    ]


def test_then_the_widest_cells_wrap() -> None:
    """Every word stays; a word that is longer than its column breaks."""
    head, row = table_rows(("NAME", "STATE"), [("n" * 50, ROW[2])], 40)
    assert len(head) == 1
    assert max(map(len, row)) <= 40
    assert "".join(line[:20].strip() for line in row) == "n" * 50
    assert " ".join(line[20:].strip() for line in row).split() == ROW[2].split()


def test_columns_without_content_are_left_out() -> None:
    """A dash is no content."""
    assert without_empty(("A", "B"), [("1", "-"), ("2", "-")]) == (["A"], [["1"], ["2"]])
    assert without_empty(("A", "B"), [("1", "-"), ("2", "3")]) == (["A", "B"], [["1", "-"], ["2", "3"]])


def test_what_is_not_printable_is_escaped() -> None:
    """Also a line end, which would make two rows."""
    assert table(("NAME",), [("a\nb\x1b",)]) == ["NAME", "a\\nb\\x1b"]
