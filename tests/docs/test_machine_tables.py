"""The architecture page prints the program's tables."""

from __future__ import annotations

from tests.docs.machine_tables import BETWEEN, PAGE, tables


def test_the_page_has_the_tables_of_the_machine() -> None:
    """If it differs, run `python -m tests.docs.machine_tables`."""
    (printed,) = BETWEEN.findall(PAGE.read_text())
    assert printed == tables()
