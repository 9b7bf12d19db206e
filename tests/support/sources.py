"""Sources: the project's files, read and parsed once by each process, however many tests look at them."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

SOURCES_GROUP: Final = "sources"
"""The group of tests that look at all sources: one worker runs them, so that only one parses all files."""


@functools.cache
def files(*folders: str) -> tuple[Path, ...]:
    """Return the Python files below these folders of the project, sorted."""
    return tuple(sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")))


def shown(path: Path) -> str:
    """Return the path of a file within the project."""
    return str(path.relative_to(ROOT))


@functools.cache
def source(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text()


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file. All callers share it: change nothing in it."""
    return ast.parse(source(path))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return every node of a file's syntax tree, in the order of `ast.walk`."""
    return tuple(ast.walk(parsed(path)))
