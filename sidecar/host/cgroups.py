"""Where a container may really run: the kernel's effective cpuset of its cgroup, v1 and v2.

The engine's word is not enough: on cgroup v2 a cpuset outside the parent's is accepted and silently has no effect, and
CPUs that go offline leave effective sets behind that nobody wrote (cpuset(7); checked against a real engine in
tests/live/test_cgroups.py).

The container's cgroup is looked for by its id in the places where engines put it, below the mount of the hierarchy, and
remembered. Where it is none of these, and the host's processes are visible, /proc/PID/cgroup tells; it is believed only
if it names the container's id, since in a container of ours the same PID may be somebody else.

A cgroup without CPUs of its own (v2 without the controller there, v1 after its last CPU went offline) has its
processes run on those of the nearest ancestor that has some.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.decide.facts import ContainerView
from sidecar.host.sysfs import read_topology
from state.cpuset import CPUSet
from state.errors import CPUSetError
from state.topology import Topology

CGROUP: Final = "/sys/fs/cgroup"

_ID: Final = re.compile(r"[0-9a-f]{64}")
_PARENT: Final = re.compile(r"[A-Za-z0-9_.:@\\/-]{1,1024}")
_CACHE_LIMIT: Final = 8192
"""Remembered paths. Containers that are gone are not announced here, so a full cache is simply begun anew."""

_READ_BYTES: Final = 64 * 1024
"""More than the longest CPU list (40 KiB), less than anything that would hurt."""


class Hierarchy(NamedTuple):
    """A mounted cgroup hierarchy that has cpusets: its version, its root, and its files, best first."""

    version: int
    root: str
    files: tuple[str, ...]


_V1_FILES: Final = ("cpuset.effective_cpus", "cpuset.cpus")
_V2_FILES: Final = ("cpuset.cpus.effective",)


def find_hierarchy(root: str | Path = CGROUP) -> Hierarchy | None:
    """The hierarchy with cpusets below a mount of /sys/fs/cgroup; None where there is none.

    `root` may be the usual tmpfs of v1 and hybrid hosts, the v2 mount, or the v1 cpuset mount itself.
    """
    base = Path(root)
    for path in (base / "cpuset", base):
        if (path / "cpuset.cpus").exists() and (path / "tasks").exists():
            return Hierarchy(1, str(path), _V1_FILES)
    for path in (base, base / "unified"):
        try:
            controllers = (path / "cgroup.controllers").read_text(encoding="ascii").split()
        except (OSError, UnicodeDecodeError):
            continue
        if "cpuset" in controllers:
            return Hierarchy(2, str(path), _V2_FILES)
    return None


class HostKernel:
    """The kernel's files on this host, below given roots (for tests, and for a sidecar in a container)."""

    def __init__(self, *, cgroup: str | Path = CGROUP, sys: str | Path = "/sys", proc: str | Path = "/proc") -> None:
        self._cgroup = str(cgroup)
        self._sys = str(sys)
        self._proc = str(proc)
        self._directories: dict[str, str] = {}

    def topology(self) -> Topology:
        """The machine as it is now. StateError if it cannot be understood."""
        return read_topology(self._sys)

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Where a live container may really run; None where it is not live or cannot be read."""
        if not view.phase.is_live or not _ID.fullmatch(view.id):
            self._directories.pop(view.id, None)
            return None
        known = self._directories.get(view.id)
        # The usual case is one open, read and close.
        if known is not None and (cpus := _read_cpus(known)):
            return cpus
        self._directories.pop(view.id, None)
        hierarchy = find_hierarchy(self._cgroup)
        if hierarchy is None:
            return None
        for directory in self._candidates(hierarchy, view):
            if os.path.isdir(directory):
                return self._read_upwards(hierarchy, directory, view.id)
        return None

    def _read_upwards(self, hierarchy: Hierarchy, directory: str, id: str) -> CPUSet | None:
        """The CPUs of a cgroup, or of the nearest ancestor that has some. Only a cgroup's own file is remembered."""
        at = directory
        while True:
            for name in hierarchy.files:
                if cpus := _read_cpus(f"{at}/{name}"):
                    if at == directory:
                        if len(self._directories) >= _CACHE_LIMIT:
                            self._directories.clear()
                        self._directories[id] = f"{at}/{name}"
                    return cpus
            if at == hierarchy.root or not at.startswith(hierarchy.root):
                return None
            at = os.path.dirname(at)

    def _candidates(self, hierarchy: Hierarchy, view: ContainerView) -> Iterator[str]:
        """Where the container's cgroup may be, likeliest first."""
        id = view.id
        for parent in _parents(view.cgroup_parent):
            for name in (
                f"docker-{id}.scope",
                # crun puts the process one level deeper, so that the scope can hold limits of its own.
                f"libpod-{id}.scope/container",
                f"libpod-{id}.scope",
                id,
                f"libpod-{id}",
            ):
                yield f"{hierarchy.root}{parent}/{name}"
        if path := self._path_from_proc(hierarchy, view):
            yield f"{hierarchy.root}{path}"

    def _path_from_proc(self, hierarchy: Hierarchy, view: ContainerView) -> str | None:
        if view.pid <= 0:
            return None
        try:
            lines = Path(f"{self._proc}/{view.pid}/cgroup").read_text(errors="replace").splitlines()
        except OSError:
            return None
        for line in lines:
            # proc_pid_cgroup(5): "hierarchy:controllers:path"; v2 is "0::path".
            number, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            ours = "cpuset" in controllers.split(",") if hierarchy.version == 1 else number == "0" and not controllers
            # ".." is what a foreign cgroup looks like from inside a cgroup namespace: nothing to be found by.
            if ours and view.id in path and path.startswith("/") and ".." not in path.split("/"):
                return path
        return None


def _parents(cgroup_parent: str) -> Iterator[str]:
    """The parent that was asked for, then the engines' defaults, each as a path below the hierarchy's root."""
    asked = cgroup_parent.strip("/")
    if asked and _PARENT.fullmatch(asked) and ".." not in asked.split("/"):
        if asked.endswith(".slice") and "/" not in asked:
            yield _slice_path(asked)
        yield f"/{asked}"
    yield "/docker"
    yield "/system.slice"
    yield "/machine.slice"
    yield "/libpod_parent"


def _slice_path(name: str) -> str:
    """A slice is nested by the dashes in its name (systemd.slice(5)): a-b.slice is a.slice/a-b.slice."""
    parts = name.removesuffix(".slice").split("-")
    if not all(parts):
        return "" if name == "-.slice" else f"/{name}"
    return "".join(f"/{'-'.join(parts[:depth])}.slice" for depth in range(1, len(parts) + 1))


def _read_cpus(path: str) -> CPUSet | None:
    """The set in a cgroup's file; None where it is empty, gone, or not a list."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.read(opened, _READ_BYTES)
        finally:
            os.close(opened)
        return CPUSet.parse(content.decode("ascii")) or None
    except (OSError, UnicodeDecodeError, CPUSetError):
        return None
