"""The page of faults names existing tests, and the program's own messages."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT, names, rows
from tests.support.sources import files, source

PAGE = ROOT / "docs/reference/faults.md"
ROWS = [row for row in rows(PAGE.read_text()) if row[0] != "fault"]
SOURCES = "".join(map(source, files("sidecar", "state")))
# A sentence in the source may be split over lines, and contain fields.
SAID = re.sub(r'"\s*(?:\+\s*)?f?"', "", SOURCES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_is_shown_by_tests_that_are_there(row: list[str]) -> None:
    """Each names at least one file of the live tests."""
    assert names(row[3])
    for name in names(row[3]):
        assert (ROOT / "tests/live" / f"{name}.py").is_file(), name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_what_it_says_is_what_the_program_says(row: list[str]) -> None:
    """The words in the third column are in the source."""
    for words in names(row[2]):
        found = words in SAID or words in ("problems", "doctor", "/readyz")
        assert found or re.sub(r"checkpoint.json|status.json", "{name}", words) in SAID, words


def test_every_live_test_of_faults_has_a_row() -> None:
    """And no file is missing."""
    named = {name for row in ROWS for name in names(row[3])}
    there = {path.stem for path in (ROOT / "tests/live").glob("test_faults_*.py")}
    assert there <= named
