"""Groups without a systemd, and tasks of the root group: on the real kernel where it has cpusets of v1, in a group of
the test's own that plays the root, with processes that the test started; else on a tree of files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from sidecar.failures import EngineFailed
from sidecar.host.cgroup.places import Hierarchy
from sidecar.host.units.host_tasks import HostTasks
from sidecar.host.units.plain_groups import OWN, NamedGroup, RootTasks, is_hosts_own
from sidecar.host_ports import UnitLook
from state.cpuset import CPUSet

V1: Final = Path("/sys/fs/cgroup/cpuset")
ID: Final = "0123456789abcdef" * 4
ALL: Final = CPUSet.parse("0-3")

needs_v1 = pytest.mark.skipif(
    not os.access(V1 / "cgroup.sane_behavior", os.R_OK) or not os.access(V1 / "tasks", os.W_OK),
    reason="needs cpusets of cgroup v1, writable",
)


def online() -> CPUSet:
    return CPUSet.parse((V1 / "cpuset.effective_cpus").read_text().strip())


@pytest.fixture
def root() -> Iterator[Path]:
    """A group of the test's own, with all CPUs; what is left in it at the end is ended."""
    made = V1 / f"cpuset-tests-{uuid.uuid4().hex[:8]}"
    made.mkdir()
    for file in ("cpuset.cpus", "cpuset.mems"):
        (made / file).write_text((V1 / file).read_text())
    yield made
    for group in (made / OWN.strip("/"), made):
        deadline = time.monotonic() + 10
        while group.is_dir() and (left := (group / "cgroup.procs").read_text().split()):
            for pid in left:
                os.kill(int(pid), signal.SIGKILL)
            assert time.monotonic() < deadline, left
            time.sleep(0.01)
        if group.is_dir():
            group.rmdir()


@pytest.fixture
def start(root: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Start a shell in the group that plays the root."""
    started: list[subprocess.Popen[bytes]] = []

    def started_in(script: str) -> subprocess.Popen[bytes]:
        enter = f"echo $$ > {root}/tasks; {script}"
        started.append(subprocess.Popen(["sh", "-c", enter], stdout=subprocess.PIPE, start_new_session=True))
        return started[-1]

    yield started_in
    for each in started:
        os.killpg(each.pid, signal.SIGKILL)
        each.communicate()


def ids(group: Path) -> set[int]:
    return {int(each) for each in (group / "tasks").read_text().split()}


def shielded(root: Path) -> RootTasks:
    return RootTasks(Hierarchy(1, str(root), "cpuset"), online)


@needs_v1
@pytest.mark.trio
async def test_tasks_of_the_root_group_are_shielded_and_come_back(
    root: Path, start: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    """With all that they started; the group of the sidecar's own is gone afterwards."""
    one = start("sleep 60 & echo on; sleep 60")
    assert one.stdout is not None
    one.stdout.readline()
    those, first = shielded(root), CPUSet.of(online().mask.bit_length() - 1)
    assert those.look() == UnitLook("", "", runs=True)
    assert those.effective() == online()
    await those.confine(first)
    own = root / OWN.strip("/")
    assert not ids(root)
    assert len(ids(own)) in (2, 3), "a shell, and what it started"
    assert those.look() == UnitLook(OWN, str(first), runs=True)
    assert those.effective() == first
    assert os.sched_getaffinity(one.pid) == set(first)
    await those.confine(online())
    assert one.pid in ids(root)
    assert not own.exists()
    assert those.look() == UnitLook("", "", runs=True)
    assert os.sched_getaffinity(one.pid) == set(online())


@needs_v1
@pytest.mark.trio
async def test_one_that_forks_without_end_is_caught(
    root: Path, start: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    """A child that is born while its parent is moved stays behind for a round."""
    busy = start("echo on; while :; do /bin/true & wait; done")
    assert busy.stdout is not None
    busy.stdout.readline()
    those, first = shielded(root), CPUSet.of(0)
    await those.confine(first)
    assert those.effective() == first
    assert not ids(root)
    assert busy.pid in ids(root / OWN.strip("/"))
    await those.confine(online())
    assert busy.pid in ids(root)


@needs_v1
@pytest.mark.trio
async def test_a_newcomer_in_the_root_group_may_run_everywhere_until_it_is_moved_too(
    root: Path, start: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    those, first = shielded(root), CPUSet.of(0)
    await those.confine(first)
    new = start("echo on; sleep 60")
    assert new.stdout is not None
    new.stdout.readline()
    assert those.effective() == online()
    await those.confine(first)
    assert those.effective() == first
    assert new.pid in ids(root / OWN.strip("/"))


@needs_v1
@pytest.mark.trio
async def test_what_was_interrupted_is_seen_and_goes_on(
    root: Path, start: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    """A sidecar that was killed between two tasks leaves one here and one there; the next one finds both."""
    here, there = start("echo on; sleep 60"), start("echo on; sleep 60")
    for each in (here, there):
        assert each.stdout is not None
        each.stdout.readline()
    await shielded(root).confine(CPUSet.of(0))
    (root / "tasks").write_text(str(here.pid))
    for process in list(ids(root) - {here.pid}):
        (root / OWN.strip("/") / "tasks").write_text(str(process))
    successor = shielded(root)
    assert successor.look() == UnitLook(OWN, "0", runs=True)
    assert successor.effective() == online()
    await successor.confine(online())
    assert {here.pid, there.pid} <= ids(root)
    assert not (root / OWN.strip("/")).exists()


@needs_v1
def test_a_group_that_is_shown_as_the_root_is_not_the_hosts_own(root: Path) -> None:
    """There, no thread of the kernel is moved."""
    assert not is_hosts_own(Hierarchy(1, str(root), "cpuset"))
    assert is_hosts_own(Hierarchy(1, str(V1), "cpuset"))


def tree(tmp_path: Path, *, version: int = 2) -> Hierarchy:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "cpuset.cpus").write_text("\n" if version == 2 else "0-3\n")
    (tmp_path / "cgroup.subtree_control").write_text("\n")
    return Hierarchy(version, str(tmp_path), "cpuset")


@pytest.mark.trio
@pytest.mark.parametrize(("version", "free"), [(2, ""), (1, "0-3")])
async def test_a_named_group_is_confined_and_let_go(tmp_path: Path, version: int, free: str) -> None:
    """On v1 each group has CPUs of its own; on v2 one that may run everywhere has none."""
    group = NamedGroup(tree(tmp_path, version=version), "/agents", lambda: ALL)
    assert group.look() == UnitLook("/agents", "", runs=True)
    await group.confine(CPUSet.parse("0,2"))
    assert group.look() == UnitLook("/agents", "0,2", runs=True)
    assert (tmp_path / "cgroup.subtree_control").read_text().strip() == ("+cpuset" if version == 2 else "")
    await group.confine(ALL)
    assert (tmp_path / "agents" / "cpuset.cpus").read_text().strip() == free
    assert group.look() == UnitLook("/agents", "", runs=True)


def test_a_named_group_with_containers_or_without_a_directory_is_none(tmp_path: Path) -> None:
    """The one is a hole: what confines it confines the containers."""
    hierarchy = tree(tmp_path)
    assert NamedGroup(hierarchy, "/none", lambda: ALL).look() is None
    (tmp_path / "agents" / ID).mkdir()
    group = NamedGroup(hierarchy, "/agents", lambda: ALL)
    assert group.look() is None
    assert group.holes() == {"/agents": "has containers below it"}
    (tmp_path / "agents" / ID).rmdir()
    assert group.holes() == {}
    (tmp_path / "agents" / ID / "inner").mkdir(parents=True)
    for path in (f"/agents/{ID}", f"/agents/{ID}/inner"):
        inside = NamedGroup(hierarchy, path, lambda: ALL)
        assert (inside.look(), inside.holes()) == (None, {path: "is a container's"})
    parent = NamedGroup(hierarchy, "/agents", lambda: ALL, ("/agents/docker",))
    assert parent.look() is None
    assert parent.holes() == {"/agents": "an engine makes containers there"}


@pytest.mark.trio
async def test_a_file_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    hierarchy = tree(tmp_path)
    (tmp_path / "agents" / "cpuset.cpus").unlink()
    (tmp_path / "agents" / "cpuset.cpus").mkdir()
    with pytest.raises(EngineFailed, match=r"agents/cpuset\.cpus cannot be written"):
        await NamedGroup(hierarchy, "/agents", lambda: ALL).confine(CPUSet.of(0))


@pytest.mark.trio
async def test_kernel_threads_of_the_root_group_stay_there(tmp_path: Path) -> None:
    """Their affinity confines them; to move one would take its CPU time from another group's share."""
    hierarchy = tree(tmp_path)
    kernel, user = "7 (kworker/u8:0) I 2 0 0 0 -1 69238880 ", "8 (sh (x)) S 1 0 0 0 -1 4194304 "
    for id, stat in ((7, kernel), (8, user)):
        (tmp_path / "proc" / str(id)).mkdir(parents=True)
        (tmp_path / "proc" / str(id) / "stat").write_text(stat + " ".join("0" * 13) + "\n")
    (tmp_path / "cgroup.procs").write_text("7\n8\n")
    tasks = HostTasks(str(tmp_path / "proc"))
    assert [task.name for task in tasks.of_users([7, 8, 9])] == ["sh (x)"]
    those = RootTasks(hierarchy, lambda: ALL, tasks)
    (tmp_path / OWN.strip("/")).mkdir()
    for file in ("cpuset.cpus", "cpuset.cpus.effective"):
        (tmp_path / OWN.strip("/") / file).write_text("0\n")
    assert those.effective() == ALL
    (tmp_path / "cgroup.procs").write_text("7\n")
    assert those.effective() == CPUSet.of(0)
