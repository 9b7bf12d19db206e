"""Machines that ship for `plan --machine` and `simulate --machine`."""

from __future__ import annotations

import json

import pytest

from sidecar.__main__ import main
from sidecar.host.machine.machine_file import machine_in
from tests.docs.pages import ROOT

EPYC = ROOT / "compose" / "machines" / "epyc.txt"


def test_the_shipped_machine_has_every_level() -> None:
    """64 CPUs in 32 cores, 8 last-level caches and 4 nodes, and nothing that had to be guessed."""
    machine = machine_in(str(EPYC))
    groups = (machine.cores, machine.caches, machine.nodes, machine.packages)
    assert len(machine.online) == 64
    assert [len(level) for level in groups] == [32, 8, 4, 1]
    assert machine.notes == ()


def test_the_examples_use_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the README, from its folder."""
    command = f"plan --cpus 16 --machine {EPYC.relative_to(ROOT)}"
    assert f"cpuset-sidecar {command}" in " ".join((ROOT / "README.md").read_text().split())
    monkeypatch.chdir(ROOT)
    assert main([*command.split(), "--json"]) == 0
    [answer] = json.loads(capsys.readouterr().out)["answers"]
    assert answer["lie"] == "8 whole cores, caches 8, 12, node 1"
