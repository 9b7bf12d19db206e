"""Tests mirror the rooms of the code, so that the tests of a module are easy to find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.sources import ROOT, files

TESTS = ROOT / "tests"

MODULES = {path.stem: path for path in files("sidecar", "state") if path.stem != "__init__"}
"""By their names, of which there are no two alike."""


def room_of(module: Path) -> Path:
    """Return the folder of the tests of a module."""
    room = module.parent.relative_to(ROOT)
    return TESTS.joinpath(*room.parts[1:]) if room.parts[0] == "sidecar" else TESTS / room


ROOMS = sorted({room_of(module) for module in MODULES.values()})
ALL = [path for room in ROOMS for path in sorted(room.glob("test_*.py"))]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(ROOT)))
def test_each_room_has_tests(room: Path) -> None:
    """Each room as a whole: a module need not have a test file of its own."""
    assert list(room.glob("test_*.py")) != []


def test_a_file_of_tests_with_the_name_of_a_module_stands_in_its_room() -> None:
    named = {path: MODULES.get(path.stem.removeprefix("test_")) for path in ALL}
    assert [path for path, module in named.items() if module and path.parent != room_of(module)] == []


def test_the_room_of_the_shared_pool_is_found() -> None:
    assert room_of(MODULES["room"]) / "test_room.py" in ALL
