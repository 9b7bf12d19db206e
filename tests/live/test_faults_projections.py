"""The directory of projections: full, broken, removed, replaced by something else. CPUs are granted all the same."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.smalldisk import breaking_disk, small_disk
from tests.live.waiting import eventually
from tests.live.watching import ONE, problems, told_in, until_alone, until_gone, watched

pytestmark = pytest.mark.live


def until_told(sidecar: SidecarProcess, id: str, cpus: object) -> None:
    """Wait until its file has these CPUs."""
    eventually(lambda: (told := sidecar.projection(id)) and told.settled and told.cpus == cpus, "it is told")


def test_what_cannot_be_told_for_want_of_room_is_taken_back(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """No file is untrue: one that cannot be shortened is removed, which needs no room."""
    with small_disk(sidecar.projections) as disk:
        sidecar.start()
        neighbour = workloads.run("neighbour")
        until_told(sidecar, neighbour, online())
        disk.fill()
        with watched(sidecar, neighbour) as watcher:
            owner = workloads.run("owner", labels=ONE)
            watcher.watch(owner)
            until_alone(sidecar, owner)
            eventually(lambda: "there is no space left; free some" in problems(sidecar), "said")
            assert (kernel.once_running(owner), kernel.allowed(neighbour)) == (LAST, REST)
            assert told_in(sidecar.projections / "by-id" / neighbour[:12] / "cpuset") in ("", str(REST))
            # What was taken back may have left room for it.
            eventually(lambda: (told := sidecar.projection(owner)) is None or told.cpus == LAST, "nothing else is told")
            disk.free()
            until_told(sidecar, owner, LAST)
            until_told(sidecar, neighbour, REST)
        eventually(lambda: not problems(sidecar), "all is well again")
        sidecar.kill()


def test_a_disk_that_breaks_keeps_no_container_from_its_cpus(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """Read-only: old files stay. New ones are written once the directory is writable again."""
    with breaking_disk(sidecar.projections, tmp_path / "image") as disk:
        sidecar.start()
        first = workloads.run("first", labels=ONE)
        neighbour = workloads.run("neighbour")
        until_told(sidecar, first, LAST)
        until_told(sidecar, neighbour, REST)
        disk.break_down()
        workloads.api.remove(first)
        until_gone(sidecar, first)
        second = workloads.run("second", labels=ONE)
        until_alone(sidecar, second)
        eventually(lambda: "it is on a read-only file system" in problems(sidecar), "said")
        assert (kernel.once_running(second), kernel.allowed(neighbour)) == (LAST, REST)
        assert sidecar.projection(second) is None
        disk.repair()
        until_told(sidecar, second, LAST)
        until_told(sidecar, neighbour, REST)
        eventually(lambda: not problems(sidecar), "all is well again")
        eventually(lambda: sidecar.projection(first) is None, "the first one's directory is removed")
        sidecar.kill()


def removed(folder: Path) -> None:
    """Remove a folder that the sidecar may fill again meanwhile."""
    while True:
        with suppress(OSError):
            shutil.rmtree(folder)
            return


def test_what_is_removed_is_told_again(running: SidecarProcess, workloads: Containers) -> None:
    """All of it, or a part, even without any change."""
    neighbour, owner = workloads.run("neighbour", labels={"cpuset.projection": "web"}), workloads.run("o", labels=ONE)
    until_told(running, owner, LAST)
    until_told(running, neighbour, REST)
    root = running.projections
    for what in (root, root / "by-id" / owner[:12], root / "by-name"):
        removed(what)
        until_told(running, owner, LAST)
        until_told(running, neighbour, REST)
        eventually(lambda: (root / "by-name/web/cpuset").exists(), "by name, too")
    # What was removed while it was written is a problem until it is told again.
    eventually(lambda: not problems(running), "nothing is wrong")


@pytest.mark.parametrize("thing", ["a file", "a link"])
def test_something_else_in_its_place_is_said_and_not_followed(
    running: SidecarProcess, workloads: Containers, kernel: KernelView, tmp_path: Path, thing: str
) -> None:
    """Otherwise a planted link could make the daemon write elsewhere."""
    first = workloads.run("first", labels=ONE)
    until_told(running, first, LAST)
    elsewhere, root = tmp_path / "elsewhere", running.projections
    elsewhere.mkdir()
    root.rename(tmp_path / "before")
    root.touch() if thing == "a file" else root.symlink_to(elsewhere)
    eventually(lambda: "a symbolic link or a file is there" in problems(running), "said")
    workloads.api.remove(first)
    until_gone(running, first)
    second = workloads.run("second", labels=ONE)
    until_alone(running, second)
    assert kernel.once_running(second) == LAST
    assert not list(elsewhere.iterdir())
    root.unlink()
    until_told(running, second, LAST)
    assert not (root / "by-id" / first[:12]).exists()
    eventually(lambda: not problems(running), "all is well again")


def test_a_repaired_disk_is_writable_although_another_mount_namespace_has_the_broken_one(tmp_path: Path) -> None:
    """Containers that start meanwhile have it for a moment: the disk of these tests does not depend on them."""
    with breaking_disk(tmp_path / "disk", tmp_path / "image") as disk:
        with Popen(["unshare", "--mount", "sh", "-c", "echo; exec cat"], stdin=PIPE, stdout=PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            disk.break_down()
            with pytest.raises(OSError, match="Read-only"):
                (disk.path / "file").touch()
            disk.repair()
            (disk.path / "file").touch()
        assert (disk.path / "file").exists()
