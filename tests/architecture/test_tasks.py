"""Which tasks the daemon starts, and that an unexpected error in none but the allocator's can end it (decision 0080).

A task in a nursery of its own function ends with that function, and its error is that function's. Any other is in a
nursery of the daemon, which its error would end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.sources import SOURCES_GROUP, files, nodes, shown

pytestmark = pytest.mark.xdist_group(SOURCES_GROUP)

LOOPS = {"sidecar/daemon.py"}
"""Whose own nurseries are those of the daemon."""

ASIDE = ("sidecar/cli/", "sidecar/simulation/")
"""Programs of their own."""

KEPT = {
    ("sidecar/daemon.py", "self._keep"),
    ("sidecar/daemon.py", "follow"),
    ("sidecar/engine_rooms.py", "kept"),
    ("sidecar/engine_rooms.py", "self._keep"),
    ("sidecar/observe/looks.py", "meet"),
}
"""They last, and begin again: `tests/daemon/test_daemon_lasting.py` makes each fail."""

CONTAINED = {
    ("sidecar/apply/executor.py", "self._apply"),
    ("sidecar/apply/executor.py", "self._read_topology"),
    ("sidecar/apply/executor.py", "self._signal"),
    ("sidecar/apply/executor.py", "self._stop"),
    ("sidecar/observe/brief.py", "self._judge"),
    ("sidecar/observe/looks.py", "self._look_in"),
    ("sidecar/observe/looks.py", "self._look_surely"),
    ("sidecar/observe/meeting_insiders.py", "self._ask"),
}
"""They come and go, and contain their errors (`sidecar/crashes.py`)."""

BARE = {
    ("sidecar/apply/executor.py", "self._outbox.send"),
    ("sidecar/apply/executor.py", "self._tell_if_late"),
    ("sidecar/apply/executor.py", "self.wait"),
    ("sidecar/observe/brief.py", "self._wait"),
    ("sidecar/observe/looks.py", "self._outbox.send"),
    ("sidecar/observe/turns.py", "end_in_time"),
}
"""They wait, and send what they were given or ask for a look: nothing that a container's author wrote is in them."""

LIFE = {("sidecar/daemon.py", "allocator.run"), ("sidecar/daemon.py", "Reloading.run")}
"""The daemon's life."""


def tasks() -> Iterator[tuple[str, str]]:
    """Yield each task that is started in a nursery of the daemon: its file, and what is run."""
    for path in files("sidecar"):
        if not shown(path).startswith(ASIDE):
            for function in nodes(path):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    own = set() if shown(path) in LOOPS else _nurseries(function)
                    yield from ((shown(path), run) for nursery, run in _started(function) if nursery not in own)


def _started(function: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the nursery and the function of each task that is started in this one."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=nursery, attr="start_soon"), args=[run, *_]):
                yield ast.unparse(nursery), _named(run)
            case _:
                pass


def _named(run: ast.expr) -> str:
    """Return the function that is run, without what it is given."""
    match run:
        case ast.Call(func=ast.Name("partial"), args=[function, *_]):
            return _named(function)
        case ast.Attribute(value=ast.Call(func=made), attr=name):
            return f"{ast.unparse(made)}.{name}"
        case _:
            return ast.unparse(run)


def _nurseries(function: ast.AST) -> set[str]:
    return {
        ast.unparse(item.optional_vars)
        for node in ast.walk(function)
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if item.optional_vars and "open_nursery" in ast.unparse(item.context_expr)
    }


def test_each_task_of_the_daemon_is_kept_or_contains_its_errors() -> None:
    """Whatever is added has a place in this table, and is made to fail by a test."""
    assert set(tasks()) == KEPT | CONTAINED | BARE | LIFE
