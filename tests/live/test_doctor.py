"""On a real engine: doctor reports what it finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sidecar.__main__ import main
from tests.live.containers import Containers

pytestmark = pytest.mark.live


def test_doctor_sees_the_engine_and_a_container_pinned_by_hand(
    containers: Containers, engine_address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine answers, and a container with a cpuset of its own is named."""
    containers.run("pinned", CpusetCpus="0")
    arguments = ["--engine", f"unix://{engine_address}", "--state-dir", str(tmp_path), "--projections", f"{tmp_path}/p"]
    main(["doctor", "--json", "--tenants-may", "pin", *arguments])
    found = {each["question"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["engine"]["verdict"] == "ok"
    assert found["pinned by hand"]["verdict"] == "warn"
    assert "pinned" in found["pinned by hand"]["says"]
