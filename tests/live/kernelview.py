"""The truth, from the kernel: where each container's processes may run. Independent of the sidecar's own reading.

The measure is Cpus_allowed_list of the processes (proc_pid_status(5)). A container's cgroup is found by its id below
the cpuset hierarchy, v1 or v2. While a container starts, the first process in its cgroup is still the runtime's own,
which runs nothing of the container and is put there before the cpuset is: it is recognised by its program, and left
out.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from state.cpuset import EMPTY, CPUSet, union
from tests.live.waiting import eventually

_MOUNT: Final = Path("/sys/fs/cgroup")
_RUNTIMES: Final = ("runc", "crun", "containerd", "conmon")
"""In the path of the program that a process of a runtime runs; runc also runs a sealed copy of itself (memfd), and
crun one for users, to which no path leads ("/")."""
_CONTAINER: Final = re.compile(r"(?:docker-|libpod-)?([0-9a-f]{64})(?:\.scope)?")
"""The name of a container's cgroup; that of its monitor has one more word."""
_POD: Final = re.compile(r"[0-9a-f]{64}|machine-libpod_pod_[0-9a-f]{64}\.slice|user-libpod_pod_[0-9a-f]{64}\.slice")
"""The name of a pod's cgroup, below which are those of its containers."""
_USERS: Final = "user.slice/user-*.slice/user@*.service/user.slice"
"""Below which systemd has the containers of a user's own Podman."""
_DEAD: Final = ("Z", "X")
"""States of processes that run nothing any more."""


class Process(NamedTuple):
    """A process of a container, at one instant."""

    pid: int
    name: str
    allowed: CPUSet


class KernelView:
    """Looks at containers by their full id. It remembers paths, so that a look is a few small reads."""

    def __init__(self) -> None:
        first = _MOUNT / "cpuset"
        self._root = first if (first / "cpuset.cpus").exists() else _MOUNT
        self._cpus = "cpuset.cpus" if self._root == first else "cpuset.cpus.effective"
        self._known: dict[str, Path] = {}

    def processes(self, id: str) -> tuple[Process, ...]:
        """Return its living processes, without those of the runtime; none if it does not run."""
        folder = self._folder(id)
        return living(folder / "cgroup.procs") if folder else ()

    def allowed(self, id: str) -> CPUSet:
        """Return all CPUs that any of its processes may run on; empty if none lives."""
        return union(process.allowed for process in self.processes(id))

    def once_running(self, id: str) -> CPUSet:
        """Return the same, as soon as one lives: an engine calls a container started just before its program is
        loaded.
        """
        return eventually(lambda: self.allowed(id), f"a process of {id[:12]} lives")

    def cpuset(self, id: str) -> CPUSet | None:
        """Return the CPUs in force in its cgroup; None if there is no cgroup, or none are set there."""
        folder = self._folder(id)
        if folder is None:
            return None
        try:
            return CPUSet.parse((folder / self._cpus).read_text()) or None
        except OSError:
            return None

    def all_allowed(self, ids: Iterable[str]) -> dict[str, CPUSet]:
        """Return `allowed` of each container that runs."""
        found = {id: self.allowed(id) for id in ids}
        return {id: cpus for id, cpus in found.items() if cpus}

    def write_cpuset(self, id: str, cpus: CPUSet) -> bool:
        """Change it behind the engine's back; return False where that is not allowed."""
        folder = self._folder(id)
        try:
            if folder is not None:
                if folder.name == "container":
                    # Under systemd crun keeps the limit on the scope above.
                    (folder.parent / "cpuset.cpus").write_text(str(cpus))
                (folder / "cpuset.cpus").write_text(str(cpus))
        except OSError:
            return False
        return folder is not None

    def groups(self) -> dict[str, Path]:
        """Return the cgroup of each container of any engine, by its id. A container's own groups are part of it."""
        found = {}
        for folder, below, _ in os.walk(self._root):
            named = _CONTAINER.fullmatch(os.path.basename(folder))
            if named and not _is_pod(Path(folder).name, below):
                below.clear()
                found[named[1]] = Path(folder)
        return found

    def parent_of(self, group: Path) -> Path:
        """Return the cgroup below which the engine puts containers, in pods or not, of which this is one's."""
        parent = group.parent
        return parent.parent if _POD.fullmatch(parent.name) else parent

    def allowed_below(self, group: Path) -> CPUSet:
        """Return all CPUs that any thread in or below a cgroup may run on."""
        threads = "tasks" if (self._root / "tasks").exists() else "cgroup.threads"
        # os.walk is a recursion, and a tenant chooses how deep this is.
        folders, found = [group], list[Process]()
        while folders:
            folder = folders.pop()
            found += living(folder / threads)
            with suppress(OSError), os.scandir(folder) as entries:
                folders += [Path(each.path) for each in entries if each.is_dir(follow_symlinks=False)]
        return union(each.allowed for each in found)

    def members(self, id: str) -> list[int]:
        """Return the process ids in its cgroup, the runtime's included."""
        folder = self._folder(id)
        return _pids(folder / "cgroup.procs") if folder else []

    def parent(self, id: str) -> Path:
        """Return the cgroup below which the engine put a running container, as soon as its program is loaded."""
        first, *_ = eventually(lambda: self.processes(id), f"a process of {id[:12]} lives")
        return self.parent_of_process(first.pid, id)

    def parent_of_process(self, pid: int, id: str) -> Path:
        """Return the same for the container of this process, wherever that is."""
        path = next(
            path
            for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()
            for _, controllers, path in [line.split(":", 2)]
            if "cpuset" in controllers.split(",") or not controllers
        )
        return self._root / path[: path.index(id)].rpartition("/")[0].lstrip("/")

    def end(self, id: str) -> None:
        """Kill all processes of a container whose engine is gone."""
        for pid in self.members(id):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _folder(self, id: str) -> Path | None:
        known = self._known.get(id)
        if known is not None and known.is_dir():
            return known
        for place in (
            f"docker/{id}",
            f"system.slice/docker-{id}.scope",
            # crun puts the process one level deeper, under systemd.
            f"machine.slice/libpod-{id}.scope/container",
            f"machine.slice/libpod-{id}.scope",
            f"libpod_parent/libpod-{id}",
            # In a pod.
            f"libpod_parent/*/libpod-{id}",
            f"machine.slice/machine-libpod_pod_*.slice/libpod-{id}.scope/container",
            f"machine.slice/machine-libpod_pod_*.slice/libpod-{id}.scope",
            # In the cgroup of its service, as quadlets run it.
            f"system.slice/*.service/libpod-payload-{id}",
            # A user's own Podman.
            f"{_USERS}/libpod-{id}.scope/container",
            f"{_USERS}/user-libpod_pod_*.slice/libpod-{id}.scope/container",
        ):
            folder = next(self._root.glob(place), None)
            if folder is not None:
                self._known[id] = folder
                return folder
        # Below the cgroup parent of an engine of the tests' own.
        for folder in (*self._root.glob(f"*/{id}"), *self._root.glob(f"*.slice/docker-{id}.scope")):
            self._known[id] = folder
            return folder
        return None


def _is_pod(name: str, below: Iterable[str]) -> bool:
    """Return whether this cgroup, with these directly below it, is a pod's."""
    return _POD.fullmatch(name) is not None and any(each.startswith("libpod-") for each in below)


def online() -> CPUSet:
    """Return the machine's online CPUs."""
    return CPUSet.parse(Path("/sys/devices/system/cpu/online").read_text())


def allowed_of(status: str) -> CPUSet:
    """Return Cpus_allowed_list from the text of a /proc/PID/status."""
    for line in status.splitlines():
        if line.startswith("Cpus_allowed_list:"):
            return CPUSet.parse(line.partition(":")[2])
    return EMPTY


def quota_of(pid: int) -> float | None:
    """Return the CPUs' worth of time that the kernel gives the cgroup of a process; None without limit."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            group = Path(f"/sys/fs/cgroup/cpu{path}")
            quota = int((group / "cpu.cfs_quota_us").read_text())
            return quota / int((group / "cpu.cfs_period_us").read_text()) if quota > 0 else None
        limit = Path(f"/sys/fs/cgroup{path}/cpu.max")
        if not controllers and limit.exists():
            most, period = limit.read_text().split()
            return None if most == "max" else int(most) / int(period)
    raise AssertionError(f"no cpu controller in /proc/{pid}/cgroup")


def living(file: Path) -> tuple[Process, ...]:
    """Return the living processes, or threads, that a file of a cgroup lists, without those of the runtime."""
    found = (_process(pid) for pid in _pids(file))
    return tuple(each for each in found if each is not None)


def _pids(file: Path) -> list[int]:
    try:
        return [int(pid) for pid in file.read_text().split()]
    except OSError:
        return []


def _process(pid: int) -> Process | None:
    """Read the program first: if it is no runtime then, the CPUs read afterwards are the container's own."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    name = fields.get("Name", "")
    if fields.get("State", "X")[0] in _DEAD or program == "/" or any(each in program for each in _RUNTIMES):
        return None
    return Process(pid, name, allowed_of(status))
