"""Who may write what: only the machine makes a Container, and each mapping of the World has one writer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.sources import SOURCES_GROUP, files, nodes, shown

pytestmark = pytest.mark.xdist_group(SOURCES_GROUP)

MACHINE = "sidecar/decide/container/machine.py"
PARTS = {MACHINE, "sidecar/decide/container/start_machine.py", "sidecar/decide/container/grip_machine.py"}
"""The machine with its parts for starts, and for the hand's grip."""

WORLD = "sidecar/decide/world.py"
"""It drops what is known of a container that no longer exists."""

OF_A_CONTAINER = (
    *("arrival", "known", "place", "line", "barred", "doubts", "start", "fault", "keeps_mems", "is_lapsed"),
    *("grip", "answers", "is_covered"),
)

WRITERS = {
    "timers": {"sidecar/decide/moves/timers.py", WORLD},
    "signalled": {"sidecar/decide/moves/signals.py", WORLD},
    "stops": {"sidecar/decide/moves/signals.py", WORLD},
    "loads": {"sidecar/decide/books/load_wish.py", WORLD},
}


def calls(*folders: str) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield every call: its place, its function, and its keywords."""
    for path in files(*folders):
        for node in nodes(path):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                yield shown(path), name, frozenset(keyword.arg or "" for keyword in node.keywords)


def test_only_the_machine_makes_a_container() -> None:
    assert {path for path, name, _ in calls("sidecar") if name == "Container"} == {MACHINE}


def test_only_the_machine_changes_a_container() -> None:
    """No other code that builds values receives a container's parts."""
    found = {
        path
        for path, name, keywords in calls("sidecar")
        if name in ("replace", "_made") and keywords & set(OF_A_CONTAINER)
    }
    assert found == PARTS


@pytest.mark.parametrize(("mapping", "writers"), WRITERS.items(), ids=list(WRITERS))
def test_each_mapping_of_the_world_has_one_writer(mapping: str, writers: set[str]) -> None:
    found = {path for path, name, keywords in calls("sidecar/decide") if name == "replace" and mapping in keywords}
    assert found == writers
