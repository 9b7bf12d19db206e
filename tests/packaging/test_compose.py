"""compose.yaml: it parses, and the sidecar has no more power than it needs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compose.host.composer import find

ROOT = Path(__file__).parents[2]
FILE = ROOT / "compose" / "compose.yaml"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services as Docker Compose itself reads them."""
    words = find()
    if words is None:
        pytest.skip("no Docker Compose here")
    as_json = ["--format", "json"] if words == ("docker", "compose") else []
    text = subprocess.run(
        [*words, "-f", str(FILE), "config", *as_json], capture_output=True, text=True, check=True, env=None
    ).stdout
    found: dict[str, Any] = (json.loads(text) if as_json else yaml_of(text))["services"]
    return found


def yaml_of(text: str) -> Any:
    """docker-compose 1.29 writes YAML only; it is a Python program that brings a reader for it."""
    code = "import sys, json, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    done = subprocess.run(["/usr/bin/python3", "-c", code], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("nothing here reads YAML")
    return json.loads(done.stdout)


def test_the_sidecar_and_three_workloads_are_there(services: dict[str, Any]) -> None:
    """One that wants a CPU of its own, one that does not, and one to be protected from."""
    assert set(services) == {"sidecar", "exclusive", "plain", "noisy"}
    assert services["exclusive"]["labels"] == {"cpuset.exclusive": "1"}
    assert not services["plain"].get("labels")
    assert not services["noisy"].get("labels")


def test_nobody_has_more_power_than_needed(services: dict[str, Any]) -> None:
    """No capability, no network, no writable root file system, no way to more."""
    for service in services.values():
        assert service["cap_drop"] == ["ALL"]
        assert "cap_add" not in service
        assert not service.get("privileged")
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["read_only"] is True
        assert service["network_mode"] == "none"


def test_only_the_sidecar_may_write_projections_or_talk_to_the_engine(services: dict[str, Any]) -> None:
    """A workload reads what it is told, and no more."""
    mounts = {name: [mount_of(volume) for volume in service["volumes"]] for name, service in services.items()}
    for name in ("exclusive", "plain", "noisy"):
        assert mounts[name] == [("/run/cpuset-sidecar", True)]
    assert set(mounts["sidecar"]) == {
        ("/var/run/docker.sock", False),
        ("/sys/fs/cgroup", True),
        ("/var/lib/cpuset-sidecar", False),
        ("/run/cpuset-sidecar", False),
    }


def mount_of(volume: str | dict[str, Any]) -> tuple[str, bool]:
    """Where a volume is mounted, and whether read-only, in either way of writing it."""
    if isinstance(volume, dict):
        return volume["target"], bool(volume.get("read_only"))
    target, _, mode = volume.split(":", 1)[1].partition(":")
    return target, mode.startswith("ro")
