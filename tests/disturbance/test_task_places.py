"""Where a task belongs, from its files in /proc."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sidecar.disturbance.task_places import TaskPlace, place_of, sees_every_task

ID = "d" * 64


def task(proc: Path, group: str, flags: int) -> TaskPlace | None:
    folder = proc / "7"
    folder.mkdir()
    (folder / "cgroup").write_text(f"4:cpuset:{group}\n")
    (folder / "stat").write_text(f"7 (a) b) S 1 7 7 0 -1 {flags} 0 0\n")
    return place_of(7, str(proc))


@pytest.mark.parametrize(
    ("group", "flags", "place"),
    [
        (f"/docker/{ID}", 0, TaskPlace(container=ID, unit=f"/docker/{ID}")),
        (
            f"/system.slice/docker-{ID}.scope/inner",
            0,
            TaskPlace(container=ID, unit=f"docker-{ID}.scope", above=("system.slice",)),
        ),
        ("/system.slice/ssh.service", 0, TaskPlace(unit="ssh.service", above=("system.slice",))),
        ("/", 0x00200000, TaskPlace(is_kernel=True)),
        ("/", 0x04200000, TaskPlace(is_kernel=True, is_bound=True)),
        ("/", 0x00000004, None),
    ],
    ids=["container", "group of a container's own", "unit", "kernel thread", "bound", "ending"],
)
def test_a_task_belongs_to_its_innermost_group(tmp_path: Path, group: str, flags: int, place: TaskPlace | None) -> None:
    """One that is ending belongs nowhere: cgroup v1 shows it in the root group."""
    assert task(tmp_path, group, flags) == place


def test_a_zombie_is_no_task_any_longer() -> None:
    """On the real kernel."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert place_of(child.pid) is None
    child.wait()


@pytest.mark.parametrize(("link", "is_hosts"), [("pid:[4026531836]", True), ("pid:[4026532177]", False)])
def test_numbers_of_tasks_are_the_kernels_in_the_first_namespace_alone(
    tmp_path: Path, link: str, is_hosts: bool
) -> None:
    (tmp_path / "self" / "ns").mkdir(parents=True)
    (tmp_path / "self" / "ns" / "pid").symlink_to(link)
    assert sees_every_task(str(tmp_path)) is is_hosts


def test_where_the_namespace_cannot_be_read_it_is_not_the_hosts(tmp_path: Path) -> None:
    assert not sees_every_task(str(tmp_path))


def test_a_task_is_of_each_unit_above_it() -> None:
    """A slice that owns has services below it, and a service groups of its own."""
    place = TaskPlace(unit="db.service", above=("apps.slice",))
    assert [place.is_of(name) for name in ("db.service", "apps.slice", "ssh.service", ID)] == [True, True, False, False]
