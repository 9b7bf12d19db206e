"""One sidecar for one engine, whatever directories they have: a lock that both see and nobody has to clean up."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sidecar.commit.state_lock import hold_lock
from sidecar.failures import AlreadyRunning
from sidecar.host.cgroup.engine_lock import HOST_UNITS, EngineLock, LockHolder, whereabouts

HOME = "/var/lib/docker (id 1)"


@pytest.fixture
def cgroup(tmp_path: Path) -> str:
    """Return a directory that looks like the root of a cgroup v2 hierarchy."""
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu\n")
    return str(root)


@contextmanager
def another_process(cgroup: str, home: str, state_dir: str) -> Iterator[int]:
    """Yield the number of a process that holds both locks of a sidecar."""
    ready, told = os.pipe()
    process = os.fork()
    if not process:
        with hold_lock(state_dir):
            EngineLock(cgroup).hold(home)
            os.write(told, b".")
            signal.pause()
    try:
        os.read(ready, 1)
        yield process
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(ready)
        os.close(told)


def test_a_second_sidecar_is_refused_and_reads_where_the_first_is(cgroup: str, tmp_path: Path) -> None:
    """Although their state directories differ."""
    state_dir = str(tmp_path / "first")
    with another_process(cgroup, HOME, state_dir) as process, closing(EngineLock(cgroup)) as second:
        assert second.holder(HOME) == LockHolder(process, second.holder(HOME).container, state_dir)  # type: ignore[union-attr]
        with pytest.raises(AlreadyRunning, match=rf"manages this engine \(process {process}.* on {state_dir}\): stop"):
            second.hold(HOME)


def test_a_second_sidecar_of_another_engine_does_not_confine_the_same_units(cgroup: str, tmp_path: Path) -> None:
    """Two would undo each other's orders without end; it is told which the first is, and what else it can do."""
    state_dir = str(tmp_path / "first")
    with another_process(cgroup, HOST_UNITS, state_dir) as process, closing(EngineLock(cgroup)) as second:
        second.hold(HOME)
        told = rf"confines the host's own processes \(process {process}.* on {state_dir}\): stop it first, or set host_"
        with pytest.raises(AlreadyRunning, match=told):
            second.hold(HOST_UNITS)


def test_a_lock_of_the_same_engine_on_another_hierarchy_is_another_one(cgroup: str, tmp_path: Path) -> None:
    """As beside a virtual machine's files, or in tests: the place of the lock belongs to its directory."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "cgroup.controllers").write_text("cpuset cpu\n")
    with (
        another_process(str(elsewhere), HOME, str(tmp_path / "other")),
        another_process(cgroup, HOME, str(tmp_path / "first")) as process,
        closing(EngineLock(cgroup)) as second,
    ):
        found = second.holder(HOME)
    assert found is not None
    assert found.process == process


def test_a_killed_sidecar_leaves_nothing_behind(cgroup: str, tmp_path: Path) -> None:
    with another_process(cgroup, HOME, str(tmp_path / "first")):
        pass
    with closing(EngineLock(cgroup)) as second:
        second.hold(HOME)
        second.hold(HOME)
        assert second.holder(HOME) is None
    assert os.listdir(cgroup) == ["cgroup.controllers"]


def test_each_engine_has_a_lock_of_its_own(cgroup: str) -> None:
    with closing(EngineLock(cgroup)) as one, closing(EngineLock(cgroup)) as other:
        one.hold(HOME)
        other.hold("/var/lib/docker (id 2)")
        assert other.holder(HOME) is not None
        assert one.holder("") is None


def test_one_that_is_not_visible_is_still_refused(cgroup: str, tmp_path: Path) -> None:
    """Its process may be in another container."""
    (tmp_path / "proc").mkdir()
    with closing(EngineLock(cgroup)) as one, closing(EngineLock(cgroup, str(tmp_path / "proc"))) as other:
        one.hold(HOME)
        assert other.holder(HOME) == LockHolder()
        assert whereabouts(other.holder(HOME)).startswith(", from a place that is not visible here")


def test_a_lock_on_the_whole_directory_is_no_sidecar(cgroup: str) -> None:
    """Any user of the host may set one."""
    opened = os.open(cgroup, os.O_RDONLY)
    try:
        fcntl.fcntl(opened, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
        with closing(EngineLock(cgroup)) as lock:
            lock.hold(HOME)
    finally:
        os.close(opened)


def test_without_a_hierarchy_nothing_is_locked(tmp_path: Path) -> None:
    with closing(EngineLock(str(tmp_path / "none"))) as lock:
        lock.hold(HOME)
        assert lock.holder(HOME) is None


def test_where_a_sidecar_is_as_the_rest_of_a_sentence() -> None:
    assert whereabouts(LockHolder(7, "f" * 64, "/s")) == f" (process 7 in container {'f' * 12}, on /s)"
    assert whereabouts(LockHolder(7)) == " (process 7)"
