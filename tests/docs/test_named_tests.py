"""Each test that the pages name, as `tests/.../test_x.py::test_name`, exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, shown

_NAMED = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")

_AUDIT = ROOT / "docs/decisions/0062-what-became-of-the-audit.md"


@functools.cache
def functions_in(path: Path) -> frozenset[str]:
    """Return the names of the functions of a module; none if there is no such module."""
    if not path.is_file():
        return frozenset()
    parsed = ast.parse(path.read_text())
    return frozenset(each.name for each in ast.walk(parsed) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def missing(text: str) -> list[str]:
    """Return the tests that a text names, and that do not exist."""
    return [f"{path}::{name}" for path, name in _NAMED.findall(text) if name not in functions_in(ROOT / path)]


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_a_test_that_a_page_names_exists(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_a_test_that_does_not_exist_is_found() -> None:
    """Planted: a module that is not there, and a function that is not in one."""
    here = "tests/docs/test_named_tests.py"
    text = f"`tests/none.py::test_a`, `{here}::test_b`, `{here}::test_a_test_that_does_not_exist_is_found`"
    assert missing(text) == ["tests/none.py::test_a", f"{here}::test_b"]


def test_every_finding_has_a_row_with_a_test() -> None:
    """All 32, in their order; a high or medium one that was found on a real engine has a live test."""
    rows = [line.split(" | ") for line in _AUDIT.read_text().splitlines() if re.match(r"\| [HML]\d", line)]
    found = {row[0].split()[1]: row for row in rows}
    wanted = [*(f"H{n}" for n in range(1, 10)), *(f"M{n}" for n in range(1, 10)), *(f"L{n}" for n in range(1, 15))]
    assert list(found) == wanted
    assert [name for name, row in found.items() if not _NAMED.search(row[2])] == []
    on_an_engine = {"H1", "H2", "H3", "H4", "H5", "H6", "H7", "H8", "M1", "M2", "M4"}
    assert [name for name in on_an_engine if "tests/live/" not in found[name][2]] == []


def test_every_guarantee_names_what_keeps_it() -> None:
    """Each row of the tables of guarantees links to at least one test."""
    text = (ROOT / "docs/security.md").read_text().split("## Guarantees")[1].split("## Open")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line and "kept by" not in line]
    assert len(rows) >= 25
    assert [row for row in rows if "](../tests/" not in row] == []
