"""What a container uses: CPU time, throttling and pressure, as the kernel counts them in its cgroup, v1 and v2.

| | v1 | v2 |
| --- | --- | --- |
| CPU time | `cpuacct.usage`, ns | `cpu.stat`: `usage_usec` |
| throttling | `cpu.stat`: `nr_throttled` | the same |
| pressure | on a hybrid host `cpu.pressure` of the v2 hierarchy | `cpu.pressure` |

Only CPU time is required. Without the cpu controller there is no throttling, and no pressure if the kernel was built or
started without it (`psi=0`), or if `cgroup.pressure` is 0 (cgroups(7), the kernel's admin-guide/cgroup-v2.rst; checked
against a real kernel in tests/host/cgroup/test_usage.py).

Opening a file costs more than reading it (docs/performance.md), so the files of a bounded number of containers are kept
open. When a container ends, its cgroup is removed, and the files that were open answer ENODEV: the cgroup is then
looked for again, as at another start. Open files do not prevent the removal of a cgroup.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.decide.books.load_sample import Usage
from sidecar.decide.facts import ContainerView
from sidecar.host.cgroup.places import CGROUP, find_directory, has_place, v1_hierarchy, v2_hierarchy

KEPT: Final = 200
"""Containers whose files are kept open, up to three each: well below the usual limit of 1024 open files."""

_READ_BYTES: Final = 64 * 1024

_USED: Final = re.compile(rb"^usage_usec (\d+)$", re.MULTILINE | re.ASCII)
_THROTTLED: Final = re.compile(rb"^nr_throttled (\d+)$", re.MULTILINE | re.ASCII)
_PRESSURE: Final = re.compile(rb"some avg10=(\d+\.\d+) .*total=(\d+)$", re.MULTILINE | re.ASCII)


class _File:
    """A file of the kernel, perhaps open; the path "" means no file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened: int | None = None

    def read(self, *, keep: bool) -> bytes:
        """Return its present content; nothing if it cannot be read. `keep` leaves it open."""
        if not self._path:
            return b""
        try:
            if self._opened is None:
                self._opened = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            content = os.pread(self._opened, _READ_BYTES, 0)
        except OSError:
            self.close()
            return b""
        if not keep:
            self.close()
        return content

    def close(self) -> None:
        """Close it."""
        if self._opened is not None:
            os.close(self._opened)
            self._opened = None


class _Counters(NamedTuple):
    """The files of one start of a container, kept open or not. On v2, `used` has what `stat` has on v1, too."""

    start: tuple[str, int]
    keep: bool
    used: _File
    stat: _File | None
    pressure: _File

    def read(self) -> Usage | None:
        """Return their values; None if they do not contain the CPU time."""
        keep = self.keep
        content = self.used.read(keep=keep)
        if self.stat is None:
            stat, match = content, _USED.search(content)
            nanoseconds = int(match[1]) * 1000 if match else None
        else:
            stat, text = self.stat.read(keep=keep), content.strip()
            nanoseconds = int(text) if text.isdigit() else None
        if nanoseconds is None:
            return None
        throttled, pressure = _THROTTLED.search(stat), _PRESSURE.search(self.pressure.read(keep=keep))
        return Usage(
            cpu_nanoseconds=nanoseconds,
            throttled=int(throttled[1]) if throttled else 0,
            waiting_microseconds=int(pressure[2]) if pressure else None,
            pressure=float(pressure[1]) if pressure else 0.0,
        )

    def close(self) -> None:
        for file in (self.used, self.stat, self.pressure):
            if file:
                file.close()


class HostUsages:
    """The kernel's counters on this host, below given roots; satisfies the port `Usages`."""

    def __init__(self, *, cgroup: str | Path = CGROUP, proc: str | Path = "/proc", kept: int | None = None) -> None:
        """Begin without open files; `kept` is the number of containers whose files are kept open."""
        self._cgroup = str(cgroup)
        self._proc = str(proc)
        # At most half of what this process may open.
        self._kept = min(KEPT, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 6) if kept is None else kept
        self._known: dict[str, _Counters] = {}

    def usage(self, view: ContainerView) -> Usage | None:
        """Return what a live container has used so far; None if it is not live or cannot be read."""
        known, start = self._known.get(view.id), (view.started_at, view.pid)
        if known and view.phase.is_live and known.start == start and (usage := known.read()):
            return usage
        self._forget(view.id)
        found = self._find(view, start) if has_place(view) else None
        if found is None:
            return None
        self._known[view.id] = found
        if (usage := found.read()) is None:
            self._forget(view.id)
        return usage

    def retain(self, containers: Collection[str]) -> None:
        """Forget all containers but these, and close the files of the others."""
        for id in self._known.keys() - set(containers):
            self._forget(id)

    def _forget(self, id: str) -> None:
        if known := self._known.pop(id, None):
            known.close()

    def _find(self, view: ContainerView, start: tuple[str, int]) -> _Counters | None:
        keep = sum(known.keep for known in self._known.values()) < self._kept
        v2 = v2_hierarchy(self._cgroup)
        unified = find_directory(v2, view, self._proc) if v2 else None
        pressure = _File(f"{unified}/cpu.pressure" if unified else "")
        v1 = v1_hierarchy(self._cgroup, "cpuacct", "cpuacct.usage")
        if v1 and (directory := find_directory(v1, view, self._proc)):
            cpu = v1_hierarchy(self._cgroup, "cpu", "cpu.stat")
            limits = find_directory(cpu, view, self._proc) if cpu else None
            stat = _File(f"{limits}/cpu.stat" if limits else "")
            return _Counters(start, keep, _File(f"{directory}/cpuacct.usage"), stat, pressure)
        # On a hybrid host every cgroup of v2 has its CPU time too, without any controller.
        return _Counters(start, keep, _File(f"{unified}/cpu.stat"), None, pressure) if unified else None
