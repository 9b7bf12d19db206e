"""The contracts on imports name every module that they are about: a new one is not exempt by being forgotten."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.support.sources import ROOT

CONTRACTS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

ALONE: Final = {"__init__", "runtime"}
"""The package itself, and the runtime, which has a stricter contract of its own."""

HOMES: Final = {
    "asyncio and aiodocker live under engines": {"engines"},
    "the web server lives under api, and is imported by whoever serves alone": {"api"},
}
"""The room that each of these contracts keeps something in."""


@pytest.mark.parametrize("name", HOMES)
def test_a_contract_that_keeps_something_in_one_room_names_all_others(name: str) -> None:
    (listed,) = [set(each["source_modules"]) for each in CONTRACTS if each["name"] == name]
    modules = {
        path.stem for path in (ROOT / "sidecar").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert {f"sidecar.{module}" for module in modules - ALONE - HOMES[name]} - listed == set()


def test_the_contracts_are_kept() -> None:
    """As `make check` asks before each commit, and as nobody does after it."""
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
