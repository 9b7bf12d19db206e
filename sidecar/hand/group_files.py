"""The files of a group that the hand reads and writes, by directory descriptors, on cgroup v1 and v2.

- v1: `cpuset.cpus` takes no CPU that the parent's lacks (EACCES), and cannot lose one that a child's has (EBUSY). The
 quota lies in another hierarchy, usually at the same path.
- v2: `cpuset.cpus` takes any, and the effective set says what came of it. It is there only where the parent passes the
 controller on.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sidecar.decide.container.originals import NANO
from sidecar.decide.orders import Update
from sidecar.hand.libc_calls import close, open_directory, read_line, write_line
from sidecar.hand.standing_answers import parsed
from sidecar.host.cgroup.places import CGROUP, Hierarchy, v1_hierarchy, v2_hierarchy
from state.cpuset import EMPTY, CPUSet

CPUS: Final = b"cpuset.cpus"
_MEMS: Final = b"cpuset.mems"
_PROCESSES: Final = "cgroup.procs"
_EFFECTIVE: Final = {1: (b"cpuset.effective_cpus", CPUS), 2: (b"cpuset.cpus.effective", CPUS)}
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class GroupFiles:
    """One cpuset hierarchy, and the hierarchy of its CPU limits."""

    def __init__(self, cpuset: Hierarchy, limits: Hierarchy | None) -> None:
        """Raise OSError if the hierarchy cannot be opened."""
        self.version = cpuset.version
        self.root = cpuset.root
        self._root = os.open(cpuset.root, _DIRECTORY)
        self._limits = -1
        with suppress(OSError):
            self._limits = os.open(limits.root, _DIRECTORY) if limits else -1

    def close(self) -> None:
        """Close the descriptors. May be called twice."""
        for fd in {self._root, self._limits} - {-1}:
            os.close(fd)
        self._root = self._limits = -1

    def open_path(self, path: str) -> int:
        """Return a descriptor of the group at this path below the root; links are refused. Raise OSError."""
        return _opened(self._root, path)

    def names(self, path: str) -> list[bytes]:
        """Return the names of the groups in this one, sorted; none if it is gone."""
        try:
            with os.scandir(os.fsencode(f"{self.root}{path}")) as entries:
                return sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def is_writable(self, path: str) -> bool:
        """Return whether this process may write groups below this path: not with a read-only mount, for instance. A
        hierarchy's own directory has no write permission, not even for root without CAP_DAC_OVERRIDE; its files do.
        """
        at = f"{self.root}{path}"
        return any(os.access(each, os.W_OK, effective_ids=True) for each in (f"{at}/{_PROCESSES}", at))

    def effective(self, group: int) -> CPUSet:
        """Return the CPUs that an open group has effectively, EMPTY for a v1 group without CPUs. Raise OSError."""
        for name in _EFFECTIVE[self.version]:
            with suppress(FileNotFoundError):
                return parsed(read_line(group, name)) or EMPTY
        raise FileNotFoundError

    @property
    def effective_name(self) -> bytes:
        """The name of the file with the CPUs that a group has effectively."""
        return _EFFECTIVE[self.version][0]

    def cleared(self, group: int, parent: int) -> bytes:
        """Have an open group inherit its parent's CPUs; if that is not possible, return what is to be written into it
        instead. Raise OSError.
        """
        if self.version == 2:
            with suppress(OSError):
                # The kernel refuses that to a group with processes (ENOSPC).
                write_line(group, CPUS, b"")
                return b""
        return read_line(parent, CPUS) if self.version == 1 else str(self.effective(parent)).encode()

    def write_around(self, group: int, path: str, update: Update) -> None:
        """Write all of an update but its CPUs into an open group; its limits may lie at the same path elsewhere. Raise
        OSError.
        """
        if update.nano_cpus is not None or update.cpu_quota is not None:
            with self._open_limits(group, path) as limits:
                self._write_quota(limits, update)
        if update.mems:
            write_line(group, _MEMS, update.mems.encode())

    def _write_quota(self, limits: int, update: Update) -> None:
        period = int(read_line(limits, b"cpu.cfs_period_us") if self.version == 1 else _max(limits)[1])
        # As engines do it: CPUs by the period that is in force (a thousand million billionths are one CPU).
        quota = update.cpu_quota if update.nano_cpus is None else update.nano_cpus * period // NANO
        if self.version == 1:
            write_line(limits, b"cpu.cfs_quota_us", str(quota).encode())
        else:
            write_line(limits, b"cpu.max", b"max" if quota == -1 else str(quota).encode())

    @contextmanager
    def _open_limits(self, group: int, path: str) -> Iterator[int]:
        if self.version == 2:
            yield group
            return
        if self._limits < 0:
            raise FileNotFoundError(errno.ENOENT, "no cgroup hierarchy with CPU limits is mounted")
        limits = _opened(self._limits, path)
        try:
            yield limits
        finally:
            close(limits)


def find_limits(cgroup: str | Path = CGROUP) -> Hierarchy | None:
    """Return the hierarchy with CPU limits below a mount of /sys/fs/cgroup; None if there is none."""
    return v1_hierarchy(cgroup, "cpu", "cpu.cfs_quota_us") or v2_hierarchy(cgroup, "cpu")


def watchable(directory: int, name: bytes = b"") -> bytes:
    """Return a path of an open directory, or of a file in it, that inotify accepts."""
    return b"/proc/self/fd/%d/%s" % (directory, name) if name else b"/proc/self/fd/%d" % directory


def _opened(root: int, path: str) -> int:
    at = root
    # The root itself is opened anew: the caller closes what it gets.
    for part in path.strip("/").split("/") if path.strip("/") else ["."]:
        try:
            below = open_directory(at, part.encode())
        finally:
            if at != root:
                close(at)
        at = below
    return at


def _max(limits: int) -> tuple[bytes, bytes]:
    """Return quota and period of v2, in microseconds."""
    quota, _, period = read_line(limits, b"cpu.max").partition(b" ")
    return quota, period
