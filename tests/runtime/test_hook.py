"""cpuset-precreate as Podman calls it: config.json in, config.json out, or a reason and no start."""

from __future__ import annotations

import json
from typing import Any

from tests.runtime.bench import ID, Workbench, granted

SPEC: dict[str, Any] = {
    "linux": {"cgroupsPath": f"machine.slice:libpod:{ID}"},
    "annotations": {"cpuset.exclusive": "1"},
    "x": [1, "é"],
}


def test_the_bundle_is_changed_on_its_way(bench: Workbench) -> None:
    """CPUs and the projection are added, all else stays."""
    (bench.projections / "by-id" / ID[:12]).mkdir(parents=True)
    bench.answer(granted("2"))
    done = bench.hook(SPEC)
    assert (done.returncode, done.stderr) == (0, "")
    spec = json.loads(done.stdout)
    assert spec["linux"]["resources"]["cpu"] == {"cpus": "2"}
    assert [each["destination"] for each in spec["mounts"]] == ["/run/cpuset-sidecar"]
    assert spec["x"] == [1, "é"]
    assert bench.sidecar.asked[0]["id"] == ID
    assert bench.sidecar.asked[0]["cgroup"] == f"machine.slice:libpod:{ID}"
    assert bench.sidecar.asked[0]["annotations"] == {"cpuset.exclusive": "1"}


def test_an_unmanaged_bundle_passes_unchanged(bench: Workbench) -> None:
    """Byte for byte."""
    bench.answer((200, {"update": None}))
    assert bench.hook(SPEC).stdout == json.dumps(SPEC)


def test_a_refusal_is_no_bundle_and_a_reason(bench: Workbench) -> None:
    """Podman stops there."""
    bench.answer((409, {"error": "0 free"}))
    done = bench.hook(SPEC)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "cpuset-sidecar: 0 free\n")


def test_without_a_sidecar_no_other_runtime_is_advised(bench: Workbench) -> None:
    """The hook runs under each."""
    done = bench.hook(SPEC)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "so the sidecar is not running; start it (`cpuset-sidecar doctor` says what prevents it)\n"
    )


def test_a_bundle_that_does_not_say_whose_it_is_is_a_refusal(bench: Workbench) -> None:
    done = bench.hook({"linux": {"cgroupsPath": "/x"}})
    assert done.returncode == 1
    assert "is not in the path of its cgroup" in done.stderr
