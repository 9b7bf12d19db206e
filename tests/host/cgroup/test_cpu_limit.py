"""The CPU limit in force is read wherever an engine puts a container's cgroup, on v1 and v2."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.host.cgroup.cpu_limit import limit_of
from sidecar.host.cgroup.host_kernel import HostKernel

ID = "0123456789abcdef" * 4
SCOPE = f"machine.slice/libpod-{ID}.scope"
HALF = 500_000_000


def read(root: Path, files: dict[str, str], phase: Phase = Phase.RUNNING) -> int | None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return HostKernel(cgroup=root, proc=root / "proc").limit_of(ContainerView(id=ID, name="a", phase=phase))


@pytest.mark.parametrize(
    ("quota", "limit"), [("50000\n", HALF), ("-1\n", 0), ("", None), ("junk\n", None), ("150000\n", 1_500_000_000)]
)
def test_v1_has_it_in_the_hierarchy_of_the_controller(tmp_path: Path, quota: str, limit: int | None) -> None:
    """Not in that of the cpusets."""
    top = {"cpu/tasks": "", "cpu/cpu.cfs_quota_us": "-1\n"}
    group = f"cpu/libpod_parent/libpod-{ID}"
    own = {f"{group}/cpu.cfs_quota_us": quota, f"{group}/cpu.cfs_period_us": "100000\n"}
    assert read(tmp_path, {**top, **own}) == limit


@pytest.mark.parametrize(
    ("scope", "inner", "limit"),
    [
        ("50000 100000\n", "max 100000\n", HALF),
        ("max 100000\n", "25000 50000\n", HALF),
        ("50000 100000\n", "200000 100000\n", HALF),
        ("max 100000\n", "max 100000\n", 0),
        ("max 100000\n", "", None),
    ],
)
def test_v2_may_have_it_on_either_group_of_the_container(
    tmp_path: Path, scope: str, inner: str, limit: int | None
) -> None:
    """crun puts the processes one level deeper; the smaller one holds."""
    files = {f"{SCOPE}/cpu.max": scope, f"{SCOPE}/container/cpu.max": inner}
    assert read(tmp_path, {"cgroup.controllers": "cpuset cpu\n", **files}) == limit


def test_none_is_known_of_what_does_not_run_or_has_no_group(tmp_path: Path) -> None:
    """Nor without a hierarchy."""
    files = {"cgroup.controllers": "cpuset cpu\n", f"{SCOPE}/cpu.max": "50000 100000\n"}
    assert read(tmp_path, files, Phase.EXITED) is None
    assert read(tmp_path / "empty", {}) is None
    gone = ContainerView(id="f" * 64, name="b", phase=Phase.RUNNING)
    assert limit_of(gone, cgroup=str(tmp_path), proc=str(tmp_path / "proc")) is None
