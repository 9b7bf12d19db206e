"""Imports without garbage collection: nothing is collected meanwhile, and all is as it was afterwards."""

from __future__ import annotations

import gc

import pytest

from sidecar.quick_imports import quick_imports


@pytest.mark.parametrize("is_enabled", [True, False])
def test_nothing_is_collected_while_a_command_imports(is_enabled: bool) -> None:
    """Collection goes on as it was before, and never again looks through what was imported."""
    before = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        frozen = gc.get_freeze_count()
        with quick_imports():
            assert not gc.isenabled()
            imported: list[list[int]] = [[] for _ in range(1000)]
        assert gc.isenabled() is is_enabled
        assert gc.get_freeze_count() >= frozen + len(imported)
    finally:
        (gc.enable if before else gc.disable)()


def test_an_import_that_fails_leaves_collection_on() -> None:
    """The error is the import's own."""
    with pytest.raises(ModuleNotFoundError), quick_imports():
        raise ModuleNotFoundError(name="trio")
    assert gc.isenabled()
