"""Where a container may really run: the kernel's effective cpuset of its cgroup, v1 and v2.

The engine's answer is not enough: on cgroup v2 a cpuset outside the parent's is accepted and silently has no effect,
and CPUs that go offline leave effective sets behind that no program wrote (cpuset(7); checked against a real engine in
tests/live/test_cgroups.py).

`places` finds the container's cgroup, and this module remembers it.

An engine may call a container exited, or created, although its processes run: one that was killed while it started it
(Docker 20.10; seen in tests/live/test_crash.py), and any as long as a start is under way (Docker 20.10 and 26; seen in
tests/live/test_slow_starts.py). So a container that could be started is looked for as well: if its cgroup has
processes, it runs. While the engine holds its lock, which a glance alone passes, a cgroup without processes is enough:
the runtime makes it before it puts any there, and removes it before the engine calls the container exited.

A cgroup without CPUs of its own (v2 without the controller there, v1 after its last CPU went offline) has its
processes run on those of the nearest ancestor that has some. On v1 they were moved there, and stay there when the
cgroup gets CPUs again (`mending`), which the hand may give it before any look: so each look believes a v1 cgroup only
if its processes are in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from sidecar.astray import Astray
from sidecar.decide.facts import ContainerView, Phase, ViewKind
from sidecar.host.cgroup.confinement import confining, reason
from sidecar.host.cgroup.cpu_limit import limit_of
from sidecar.host.cgroup.cpuset_ears import CpusetEars
from sidecar.host.cgroup.mending import Mender
from sidecar.host.cgroup.places import (
    CGROUP,
    Hierarchy,
    find_directory,
    has_place,
    read_or_raise,
    v1_hierarchy,
    v2_hierarchy,
)
from sidecar.host.machine.sysfs import CPU_DIR, read_topology
from sidecar.host.machine.uevents import hear_cpus
from sidecar.host_ports import CpuEars, WriteEars
from state.cpuset import CPUSet
from state.errors import CPUSetError, FileUnreadable, StateError
from state.inotify import Deaf
from state.topology import Topology

_CACHE_LIMIT: Final = 8192
"""Remembered paths. Containers that are gone are not announced here, so a full cache is emptied."""

_SYS: Final = "/sys"

_FILES: Final = {1: ("cpuset.effective_cpus", "cpuset.cpus"), 2: ("cpuset.cpus.effective",)}
"""By version of cgroups, best first."""


def find_hierarchy(root: str | Path = CGROUP) -> Hierarchy | None:
    """Return the hierarchy with cpusets below a mount of /sys/fs/cgroup; None if there is none.

    `root` may be the usual tmpfs of v1 and hybrid hosts, the v2 mount, or the v1 cpuset mount itself.
    """
    return v1_hierarchy(root, "cpuset", "cpuset.cpus") or v2_hierarchy(root, "cpuset")


class HostKernel:
    """The kernel's files on this host, below given roots (for tests, and for a sidecar in a container)."""

    def __init__(self, *, cgroup: str | Path = CGROUP, sys: str | Path = _SYS, proc: str | Path = "/proc") -> None:
        self._cgroup = str(cgroup)
        self._sys = str(sys)
        self._proc = str(proc)
        self._files: dict[str, tuple[Hierarchy, str]] = {}
        self._mender = Mender(self._proc)

    def topology(self) -> Topology:
        """Return the machine as it is now. Raise StateError if it cannot be understood."""
        return read_topology(self._sys)

    def online(self) -> CPUSet:
        """Return the CPUs that are online now. Raise StateError if that cannot be read."""
        path = f"{self._sys}/{CPU_DIR}/online"
        if cpus := _read_cpus(path):
            return cpus
        raise StateError(f"{path} does not say which CPUs are online")

    def ears(self) -> WriteEars | None:
        """Return what hears writes of cpusets, as the port describes."""
        try:
            return CpusetEars(partial(find_hierarchy, self._cgroup), self._proc)
        except Deaf:
            return None

    def cpu_ears(self) -> CpuEars | None:
        """Return what hears CPUs come and go, as the port describes."""
        return hear_cpus() if self._sys == _SYS else None

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        """Mend the host, as the port describes. May be called in a thread beside the others."""
        hierarchy = find_hierarchy(self._cgroup)
        if hierarchy is None or hierarchy.version == 2:
            return ()
        return self._mender.mend(hierarchy, self._cgroup, [each for each in views if each.kind is not ViewKind.UNIT])

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Return where a container may really run; None if kernel and engine show that it runs nothing.

        Raise FileUnreadable if that cannot be found out.
        """
        if not has_place(view):
            self._files.pop(view.id, None)
            return self._leftover_cpus(view) if view.phase.may_begin else None
        known = self._files.get(view.id)
        # The usual case is one open, read and close; on v1 two.
        if known is not None and (cpus := _read_cpus(known[1])):
            hierarchy, file = known
            if not self._has_strayed(hierarchy, os.path.dirname(file), view):
                return cpus
        self._files.pop(view.id, None)
        found = find_hierarchy(self._cgroup)
        directory = find_directory(found, view, self._proc) if found else None
        if found is None or directory is None:
            return self._cpus_elsewhere(found, view) if found else None
        if self._has_strayed(found, directory, view):
            return self._read_upwards(found, os.path.dirname(directory), "")
        return self._read_upwards(found, directory, view.id)

    def _cpus_elsewhere(self, hierarchy: Hierarchy, view: ContainerView) -> CPUSet | None:
        """Return where a live container runs that has no cgroup under its name: on v1 one may be renamed. It is where
        its main process is; None if that is not visible. A path that this process cannot follow may be any.
        """
        path = self._mender.path_elsewhere(hierarchy, view) if hierarchy.version == 1 else None
        if path is None:
            return None
        at = "" if ".." in path.split("/") else path.rstrip("/")
        return self._read_upwards(hierarchy, f"{hierarchy.root}{at}", "")

    def _has_strayed(self, hierarchy: Hierarchy, directory: str, view: ContainerView) -> bool:
        """Return whether a live container's processes are not in this cgroup of its own, but in one above it."""
        return hierarchy.version == 1 and self._mender.has_strayed(hierarchy, directory, view)

    def parent_of(self, view: ContainerView) -> str:
        """Return the parent of a live container's cgroup, as the port describes."""
        hierarchy = find_hierarchy(self._cgroup) if has_place(view) else None
        if hierarchy is None or view.kind is ViewKind.UNIT:
            return ""
        known = self._files.get(view.id)
        directory = os.path.dirname(known[1]) if known else find_directory(hierarchy, view, self._proc)
        below, found, _ = (directory or "").removeprefix(hierarchy.root).partition(view.id)
        # What follows the id is at most a group within the container's.
        return os.path.dirname(below) if found else ""

    def limit_of(self, view: ContainerView) -> int | None:
        """Return a live container's CPU limit in 1e-9 CPUs, 0 for none; None if it cannot be read."""
        return limit_of(view, cgroup=self._cgroup, proc=self._proc)

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        """Return which cgroup above a live container keeps it off some of these CPUs, as a sentence's end; "" if none
        does.
        """
        return reason(confining(view, cpus, cgroup=self._cgroup, proc=self._proc))

    def why_unreadable(self, view: ContainerView) -> str:
        """Return why the sidecar may not read the CPUs of a live container's own cgroup, as the port describes."""
        hierarchy = find_hierarchy(self._cgroup) if has_place(view) else None
        directory = find_directory(hierarchy, view, self._proc) if hierarchy else None
        if hierarchy is None or directory is None:
            return ""
        why = ""
        for name in _FILES[hierarchy.version]:
            try:
                if read_or_raise(f"{directory}/{name}", denied=True) is not None:
                    return ""
            except FileUnreadable as error:
                why = why or str(error)
        return why

    def _leftover_cpus(self, view: ContainerView) -> CPUSet | None:
        """Return where a container runs that its engine does not call live; None if it has no processes, or of one that
        was only glanced at, no cgroup.
        """
        hierarchy = find_hierarchy(self._cgroup)
        as_if_running = msgspec.structs.replace(view, phase=Phase.RUNNING)
        if hierarchy is None or not has_place(as_if_running):
            return None
        directory = find_directory(hierarchy, as_if_running, self._proc)
        if directory is None or not (view.is_glance or read_or_raise(f"{directory}/cgroup.procs")):
            return None
        return self._read_upwards(hierarchy, directory, view.id)

    def _read_upwards(self, hierarchy: Hierarchy, directory: str, id: str) -> CPUSet | None:
        """Return the CPUs of a cgroup, or of the nearest ancestor that has some; None if none has.

        Only the own file of the container with this id is remembered.
        """
        at = directory
        while True:
            for name in _FILES[hierarchy.version]:
                if cpus := _read_cpus(f"{at}/{name}"):
                    if at == directory and id:
                        if len(self._files) >= _CACHE_LIMIT:
                            self._files.clear()
                        self._files[id] = hierarchy, f"{at}/{name}"
                    return cpus
            if at == hierarchy.root or not at.startswith(hierarchy.root):
                return None
            at = os.path.dirname(at)


def _read_cpus(path: str) -> CPUSet | None:
    """Return the set in a cgroup's file; None if it is empty, gone, or not a list. Raise FileUnreadable."""
    try:
        return CPUSet.parse((read_or_raise(path) or b"").decode("ascii")) or None
    except (UnicodeDecodeError, CPUSetError):
        return None
