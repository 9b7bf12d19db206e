"""The judge from outside is independent: it knows the pages and what is printed, and nothing of the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.sources import ROOT, SOURCES_GROUP, files, nodes, shown

pytestmark = pytest.mark.xdist_group(SOURCES_GROUP)

PLAYER = "tests/blackbox/player.py"
"""It alone runs the program, by the command line's own entry."""

TESTS = tuple(
    f"tests/blackbox/{name}.py" for name in ("test_blackbox", "test_planted_judge", "planted_faults", "keeping_faults")
)
"""They drive the judge; all but the first break the program."""


def imported(path: str) -> Iterator[str]:
    """Yield the modules that a file imports."""
    for node in nodes(ROOT / path):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def is_of_the_program(module: str) -> bool:
    """Return whether a module belongs to the program, or to tests that know it."""
    return module.split(".")[0] in ("sidecar", "state") or (
        module.startswith("tests") and not module.startswith("tests.blackbox")
    )


def test_the_judge_imports_nothing_of_the_program() -> None:
    judge = [shown(path) for path in files("tests") if shown(path).startswith("tests/blackbox/")]
    assert PLAYER in judge
    found = {path: [each for each in imported(path) if is_of_the_program(each)] for path in judge if path not in TESTS}
    assert {path: each for path, each in found.items() if each} == {PLAYER: ["sidecar.__main__"]}
