"""The daemon beside a Podman that can confine no container: it does not start, and says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.podman.test_podman_answers import INFO, ROOT, as_podman
from tests.support.daemon.rawdaemon import RawDaemon, answer
from tests.support.sources import ROOT as PROJECT


@pytest.mark.parametrize(
    ("host", "says"),
    [
        (
            {"cgroupVersion": "v2", "cgroupControllers": ["cpu", "memory", "pids"], "security": {"rootless": True}},
            "delegate the controllers",
        ),
        ({"eventLogger": "none"}, "set `events_logger` in containers.conf"),
    ],
)
def test_an_unfit_podman_ends_the_daemon_with_the_cure(
    host: dict[str, object], says: str, daemon: RawDaemon, tmp_path: Path
) -> None:
    """It would wait for ever for what does not change by itself."""
    info = json.loads(json.dumps(INFO))
    info["host"].update(host)
    as_podman(daemon).scripts[f"{ROOT}/info"] = answer(200, info)
    places = ("--state-dir", str(tmp_path / "state"), "--projections", str(tmp_path / "projections"))
    command = (sys.executable, "-m", "sidecar", "run", "--engine", daemon.address, *places, "--reserved", "0")
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert says in done.stderr
