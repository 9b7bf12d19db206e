"""The confining cgroup is found by looking upwards, on trees of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.host.cgroup.confinement import Confinement, confining, parents, reason
from state.cpuset import EMPTY, CPUSet

ID = "0123456789abcdef" * 4
SCOPE = f"docker-{ID}.scope"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu\n")
    return tmp_path


def group(root: Path, path: str, cpus: str, file: str = "cpuset.cpus.effective") -> None:
    (root / path).mkdir(parents=True, exist_ok=True)
    (root / path / file).write_text(f"{cpus}\n")


def view(parent: str = "", phase: Phase = Phase.RUNNING) -> ContainerView:
    return ContainerView(id=ID, name="one", phase=phase, cgroup_parent=parent)


def found(root: Path, cpus: str, parent: str = "a-b.slice", phase: Phase = Phase.RUNNING) -> Confinement | None:
    return confining(view(parent, phase), CPUSet.parse(cpus), cgroup=root, proc=root / "proc")


def test_the_highest_cgroup_that_has_less_is_named(root: Path) -> None:
    """Those below it have less because of it."""
    group(root, "a.slice", "0-5")
    group(root, "a.slice/a-b.slice", "0-3")
    group(root, f"a.slice/a-b.slice/{SCOPE}", "0-3")
    assert found(root, "0-3") is None
    assert found(root, "4") == Confinement("/a.slice/a-b.slice", CPUSet.parse("0-3"))
    assert found(root, "4,7") == Confinement("/a.slice", CPUSet.parse("0-5"))
    assert reason(found(root, "7")) == ": the cgroup /a.slice above it has only CPUs 0-5"
    assert reason(None) == ""


def test_the_containers_own_cpuset_is_not_above_it(root: Path) -> None:
    """The order changes it."""
    group(root, "a.slice/a-b.slice", "0-7")
    group(root, f"a.slice/a-b.slice/{SCOPE}", "0")
    assert found(root, "0-7") is None


def test_a_cgroup_without_the_controller_confines_no_container(root: Path) -> None:
    """It has no file; the cgroups above it count."""
    (root / f"a.slice/a-b.slice/{SCOPE}").mkdir(parents=True)
    assert [each.cpus for each in parents(view("a-b.slice"), cgroup=root, proc=root / "proc")] == [EMPTY, EMPTY]
    assert found(root, "7") is None


def test_one_that_does_not_run_or_is_not_seen_has_no_cgroup_above_it(root: Path) -> None:
    """There is no directory to look upwards from."""
    assert found(root, "0") is None
    group(root, "a.slice/a-b.slice", "0")
    (root / f"a.slice/a-b.slice/{SCOPE}").mkdir()
    assert found(root, "1", phase=Phase.EXITED) is None
    assert found(root, "1") is not None


def test_on_v1_the_parents_own_list_counts(tmp_path: Path) -> None:
    """There the kernel refuses a child that exceeds it, without naming the cgroup."""
    group(tmp_path, "cpuset", "0-7", "cpuset.cpus")
    (tmp_path / "cpuset" / "tasks").write_text("")
    group(tmp_path, "cpuset/docker", "0-1", "cpuset.cpus")
    group(tmp_path, f"cpuset/docker/{ID}", "0-1", "cpuset.cpus")
    assert found(tmp_path, "2", parent="") == Confinement("/docker", CPUSet.of(0, 1))
