"""The host that is played: agents and a busy shell in namespaces and a cgroup of the bench's own. The machine's own
processes are not touched.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup/cpuset")
"""The hierarchy of cgroup v1 with cpusets."""

AGENTS: Final = 4
SPINNERS: Final = 1


class PlayedHost:
    """A group with all CPUs, and what runs in it."""

    def __init__(self, program: Path, group: Path) -> None:
        self._program = program
        self._group = group
        self._moved: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def opened(cls, program: Path) -> Iterator[PlayedHost]:
        """Make the group. At the end what was played has ended, what was taken in is where it was, and the group is
        gone.
        """
        group = ROOT / f"isolation-host-{os.getpid()}"
        group.mkdir()
        for name in ("cpuset.mems", "cpuset.cpus"):
            (group / name).write_text((ROOT / name).read_text())
        made = cls(program, group)
        try:
            yield made
        finally:
            made.close()

    @property
    def path(self) -> str:
        """The group's path below the root of the hierarchy."""
        return f"/{self._group.name}"

    @property
    def entering(self) -> tuple[str, ...]:
        """What is put before a command for it to run in the group."""
        return ("sh", "-c", f'echo $$ > "{self._group}/cgroup.procs" && exec "$@"', "sh")

    def take_in(self, pids: Iterable[int]) -> None:
        """Move processes that were started for the bench, and all below them that are in the same group."""
        for pid in pids:
            home = _group_of(pid)
            for each in (pid, *_below(pid)):
                if _group_of(each) == home:
                    self._moved.append(each)
                    (self._group / "cgroup.procs").write_text(str(each))

    def begin(self) -> None:
        """Start the agents and the shell, in a PID namespace of their own: they end with its first process."""
        unshared = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        command = [*self.entering, *unshared, str(self._program), "host", str(AGENTS), str(SPINNERS)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def close(self) -> None:
        """End and undo all of it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for pid in self._moved:
            with suppress(OSError):
                (ROOT / "cgroup.procs").write_text(str(pid))
        deadline = time.monotonic() + 10
        while (left := (self._group / "cgroup.procs").read_text().split()) and time.monotonic() < deadline:
            for each in left:
                # What the moved ones started meanwhile, or what has not quite ended.
                with suppress(OSError):
                    (ROOT / "cgroup.procs").write_text(each)
            time.sleep(0.05)
        self._group.rmdir()


def _group_of(pid: int) -> str:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if "cpuset" in names.split(","):
                return path
    return ""


def _below(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_below(int(child))]
    return found
