"""Bundles as Docker 20.10 and Podman 4.3 made them, through both fronts (tests/runtime/bundles)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.bench import ID, Workbench, granted

FOLDER = Path(__file__).with_name("bundles")
BUNDLES = sorted(FOLDER.glob("*.json"))


def cpu_of(spec: Any) -> Any:
    """Return the limits on CPU, which every engine writes."""
    return spec["linux"]["resources"].setdefault("cpu", {})


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_a_real_bundle_gets_its_cpus_and_its_mount_and_nothing_else(bench: Workbench, path: Path) -> None:
    """What is asked is what the engine wrote; the compiled front leaves every other byte."""
    raw = path.read_bytes()
    (bench.projections / "by-id" / ID[:12]).mkdir(parents=True)
    bench.put(None, raw=raw)
    bench.answer(granted("2-3", mems="0", quota=-1))
    assert bench.create().returncode == 0
    before, after = json.loads(raw), bench.spec()
    asked, limits = bench.sidecar.asked[0], cpu_of(before)
    assert asked["cgroup"] == before["linux"]["cgroupsPath"]
    assert (asked["cpus"], asked["quota"], asked["period"]) == (
        limits.get("cpus", ""),
        limits.get("quota"),
        limits.get("period"),
    )
    assert asked["annotations"] == {
        key: value for key, value in before.get("annotations", {}).items() if key.startswith("cpuset.")
    }
    limits |= {"cpus": "2-3", "mems": "0", "quota": -1}
    mounted = after["mounts"].pop()
    assert mounted["destination"] == "/run/cpuset-sidecar"
    assert after == before
    if bench.program is None:
        return
    fresh = (bench.bundle / "config.json").read_bytes()
    at = 0
    for byte in pieces(fresh, mounted):
        found = raw.find(byte, at)
        assert found >= 0, byte
        at = found + len(byte)


def pieces(fresh: bytes, mounted: Any) -> list[bytes]:
    """Return what of a changed bundle stood in the old one: all but the limits and the mount."""
    mount = b", " + json.dumps(mounted).encode()
    assert fresh.count(mount) == 1
    first, second = fresh.split(mount)
    whole = first + second
    is_new = b', "cpu": {' in whole
    begin = whole.index(b', "cpu": {' if is_new else b'"cpu"')
    end = whole.index(b"}", begin) + is_new
    if len(first) < begin:
        return [first, whole[len(first) : begin], whole[end:]]
    return [whole[:begin], whole[end : len(first)], whole[len(first) :]]


def test_there_are_bundles_of_both_engines() -> None:
    """Plain ones, with limits and without seccomp, with annotations."""
    assert {path.stem for path in BUNDLES} >= {"docker-20.10-plain", "docker-20.10-unconfined", "podman-4.3-annotated"}
