"""Places where a hand can be seen at work: the kernel's cpusets (v1), a plain tree with v2's files, and memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest
import trio

from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.ports import Hand, HandNews
from state.cpuset import CPUSet
from tests.support.hand.simulated_hand import SimulatedHand

V1: Final = Path("/sys/fs/cgroup/cpuset")
_V1_LIMITS: Final = Path("/sys/fs/cgroup/cpu")

FILE_STAGES: Final = ("v1", "v1 with the reflex", "v2", "v2 with the reflex")

DEADLINE_SECONDS: Final = 5.0
"""For what takes the hand some hundred microseconds, on a machine with other work."""


class Stage(Protocol):
    """A host with a hand. Groups are named by their paths below the hierarchy's root, CPUs by the kernel's list."""

    @property
    def hand(self) -> Hand:
        """The hand, which must have begun."""

    def begin(self) -> None:
        """Start the hand."""

    def make(self, path: str) -> None:
        """Make a group as runtimes do: it has all CPUs, or none yet."""

    def remove(self, path: str) -> None:
        """Remove a group."""

    def overwrite(self, path: str, cpus: str) -> None:
        """Write a group's CPUs, as an engine or a tenant does."""

    def cpus(self, path: str) -> str:
        """Return a group's CPUs."""

    def grow_older(self) -> None:
        """Let the time pass in which a runtime may write a newborn group itself."""


class FileStage:
    """A directory tree that the real hand watches."""

    def __init__(self, root: Path, cgroup: Path, library: str | None, *, is_v1: bool) -> None:
        self.root = root
        self.cgroup = cgroup
        self._library = library
        self._is_v1 = is_v1
        self._begun: CgroupHand | None = None

    def begin(self) -> None:
        """Start the hand."""
        self._begun = CgroupHand.open(self._library, cgroup=self.cgroup)

    @property
    def hand(self) -> CgroupHand:
        """The hand, which must have begun."""
        assert self._begun
        return self._begun

    def close(self) -> None:
        """End the hand."""
        if self._begun:
            self._begun.close()

    def make(self, path: str) -> None:
        """Make a group, and write what a runtime writes into an empty one of v1."""
        at = self.root / path[1:]
        at.mkdir()
        if not self._is_v1:
            for name, text in (("cpuset.mems", ""), ("cpu.max", "max 100000"), ("cpuset.cpus", "")):
                (at / name).write_text(f"{text}\n")
            return
        above = at.parent
        for name in ("cpuset.mems", "cpuset.cpus"):
            if not (at / name).read_text().strip():
                (at / name).write_text((above / name).read_text())

    def remove(self, path: str) -> None:
        """Remove a group."""
        at = self.root / path[1:]
        if not self._is_v1:
            for each in at.iterdir():
                each.unlink()
        at.rmdir()

    def overwrite(self, path: str, cpus: str) -> None:
        """Write a group's CPUs, without shortening the file: the kernel's have no length."""
        with open(self.root / path[1:] / "cpuset.cpus", "r+") as file:
            file.write(f"{cpus}\n")

    def cpus(self, path: str) -> str:
        """Return a group's CPUs."""
        return (self.root / path[1:] / "cpuset.cpus").read_text().partition("\n")[0]

    def grow_older(self) -> None:
        """Let all births be a minute ago. A reflex writes a group before the watcher knows it."""
        until(lambda: any(self.hand._table.groups()))
        for group in self.hand._table.groups():
            group.born_at -= 60


class MemoryStage:
    """The simulated hand."""

    def __init__(self) -> None:
        self.hand = SimulatedHand(CPUSet.of(0, 1))

    def begin(self) -> None:
        """Count the groups that are there as found."""
        self.hand.begin()

    def make(self, path: str) -> None:
        """Make a group."""
        self.hand.make(path)

    def remove(self, path: str) -> None:
        """Remove a group."""
        self.hand.remove(path)

    def overwrite(self, path: str, cpus: str) -> None:
        """Write a group's CPUs."""
        self.hand.overwrite(path, CPUSet.parse(cpus))

    def cpus(self, path: str) -> str:
        """Return a group's CPUs."""
        return str(self.hand.cpus(path))

    def grow_older(self) -> None:
        """Do nothing: it reports every foreign write."""


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; fail at the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "the hand did not do it"
        time.sleep(0.001)


def news_until(hand: Hand, is_last: Callable[[HandNews], bool]) -> list[HandNews]:
    """Return the news up to the first of this kind; fail at the deadline."""

    async def heard() -> list[HandNews]:
        found: list[HandNews] = []
        with trio.fail_after(DEADLINE_SECONDS):
            while not any(map(is_last, found)):
                found += await hand.news()
        return found

    return trio.run(heard)


def file_stage(kind: str, directory: Path, reflex: str | None) -> AbstractContextManager[FileStage]:
    """Open one of `FILE_STAGES`, with the library of the reflex if it is one with that; skip where there is none."""
    version, _, has_reflex = kind.partition(" with ")
    if has_reflex and reflex is None:
        pytest.skip("needs a C compiler")
    return {"v1": v1_stage, "v2": v2_stage}[version](directory, reflex if has_reflex else None)


@contextmanager
def v1_stage(directory: Path, library: str | None = None) -> Iterator[FileStage]:
    """Yield cpusets of the kernel's, of CPUs 0 and 1, in a group of the test's own; skip where that is impossible."""
    if not (V1 / "cpuset.cpus").exists() or not os.access(V1, os.W_OK) or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs, and the right to make cgroups of v1")
    made = [each / f"cpuset-sidecar-test-{os.getpid()}" for each in (V1, _V1_LIMITS)]
    cgroup = directory / "cgroup"
    cgroup.mkdir()
    stage = FileStage(made[0], cgroup, library, is_v1=True)
    try:
        for each in made:
            each.mkdir()
            (cgroup / each.parent.name).symlink_to(each)
        for name in ("cpuset.mems", "cpuset.cpus"):
            (made[0] / name).write_text((V1 / name).read_text())
        (made[0] / "cpuset.cpus").write_text("0-1")
        yield stage
    finally:
        stage.close()
        for each in made:
            _remove_all(each)


@contextmanager
def v2_stage(directory: Path, library: str | None = None) -> Iterator[FileStage]:
    """Yield plain directories with the names of v2's files."""
    root = directory / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpuset cpu\n")
    stage = FileStage(root, root, library, is_v1=False)
    try:
        yield stage
    finally:
        stage.close()


def _remove_all(root: Path) -> None:
    # os.walk is a recursion.
    subprocess.run(["find", root, "-depth", "-type", "d", "-delete"], check=True)
