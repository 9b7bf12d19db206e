"""Each command as a user who may not read what belongs to root: a sentence with the cure, and never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import BUSY, leave
from tests.docs.pages import ROOT
from tests.docs.test_reference import commands

pytestmark = pytest.mark.xdist_group("without permission")

STATE = "STATE"
"""Stands for the closed directory in a command."""

COMMANDS = [
    ["status"],
    ["status", "--json"],
    ["status", "--problems"],
    ["top", "--once"],
    ["plan", "--cpus", "1"],
    ["plan", "--defragment"],
    ["plan", "--cpus", "1", "--machine", f"{STATE}/machine.txt"],
    ["explain", "web"],
    ["explain", "1"],
    ["disturbed", "web", "--seconds", "100ms"],
    ["resize", "web", "2"],
    ["defragment"],
    ["page"],
    ["events"],
    ["state"],
    ["state", "--file", f"{STATE}/checkpoint.json"],
    ["doctor"],
    ["release"],
    ["run", "--policy", "static", "--reserved", "0"],
    ["run", "--config", f"{STATE}/c.toml"],
    ["swarm", "advertise", "--policy", "static", "--reserved", "0", "--root", STATE],
    ["install-runtime", "--root", STATE],
    ["install-slice", "--driver", "systemd", "--root", STATE],
    ["watch", f"{STATE}/by-id/web"],
    ["exec", "--dir", f"{STATE}/by-id/web", "--", "true"],
    ["ack", "--dir", f"{STATE}/by-id/web", "1"],
    ["simulate", f"{STATE}/scenario.toml"],
    ["topology", "--machine", f"{STATE}/machine.txt"],
    ["topology", "--record", f"{STATE}/machine.txt"],
]


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """Yield a state directory that nobody but root may enter, in one that everybody may."""
    # Not below pytest's own directory, which is closed as a whole.
    above = Path(tempfile.mkdtemp())
    above.chmod(0o755)
    state = above / "state"
    leave(state, BUSY)
    state.chmod(0o700 if os.geteuid() == 0 else 0)
    yield str(state)
    state.chmod(0o700)
    shutil.rmtree(above)


@pytest.fixture(scope="module")
def told(closed: str) -> list[dict[str, Any]]:
    """Return what each of the commands printed, and its exit code."""
    typed = [[word.replace(STATE, closed) for word in command] for command in COMMANDS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.as_another_user", json.dumps(typed)],
        env={**os.environ, "CPUSET_SIDECAR_STATE_DIR": closed, "CPUSET_SIDECAR_PROJECTIONS": f"{closed}-p"},
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=[" ".join(command) for command in COMMANDS])
def test_no_command_ends_with_a_traceback(told: list[dict[str, Any]], number: int) -> None:
    """It says what it could not open, and who could."""
    said, code = told[number]["said"], told[number]["code"]
    assert "Traceback" not in said
    assert code in (0, 1, 3), said
    if code == 1 and "permission denied" in said:
        assert "as root" in said or "make it writable" in said


def test_every_command_is_tried() -> None:
    """A new command joins the list."""
    assert {command[0] for command in COMMANDS} >= set(commands()) - {"help", "completion"}
