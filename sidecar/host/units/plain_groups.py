"""NamedGroup and RootTasks: cgroups that no systemd looks after, as units of the host.

A group that the configuration names is confined by its file. Tasks in the root group have no file that confines them:
they go to a group of the sidecar's own, and come back from it, as with `cset shield`. Where they are is the only record
that is needed: whatever was interrupted is seen in the tree, and the next look goes on from there.

On v1 a task is a thread, and each has a cpuset of its own; on v2 a process moves as a whole. Kernel threads stay in the
root group: their affinity confines them (`kernel_threads`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from sidecar.failures import EngineFailed
from sidecar.host.cgroup.places import USUAL, Hierarchy, read
from sidecar.host.units.host_tasks import HostTasks, Task
from sidecar.host.units.host_units import holds_container, is_in_container
from sidecar.host_ports import UnitLook
from state.cpuset import CPUSet
from state.errors import CPUSetError
from state.files import reason

OWN: Final = "/sidecar-host"
"""The sidecar's own group, for tasks of the root group."""

ROOT: Final = "/"
"""The root group, in the configuration."""

ROOT_TASKS: Final = "root-group"

_ROUNDS: Final = 20
"""A task may fork while it is moved, and leave its child behind: look again."""

_EFFECTIVE: Final = {1: "cpuset.effective_cpus", 2: "cpuset.cpus.effective"}


class NamedGroup:
    """A group, by its path below the hierarchy's root. Satisfies `HostPart`."""

    def __init__(
        self, hierarchy: Hierarchy, path: str, online: Callable[[], CPUSet], parents: Collection[str] = USUAL
    ) -> None:
        """Make it. It is never confined if it is a container's, or in one, or if engines make containers in it, in one
        of the `parents`: one that comes later must not be born into confinement.
        """
        self.name = path
        self._is_containers = is_in_container(path)
        self._is_parent = any(each == path or each.startswith(f"{path}/") for each in parents)
        self._hierarchy = hierarchy
        self._online = online
        self._at = f"{hierarchy.root}{path}"

    def look(self) -> UnitLook | None:
        """Return its CPUs; None if it is not there, or has containers below it."""
        if not os.path.isdir(self._at) or self._is_parent or self._is_containers or holds_container(self._at):
            return None
        cpus = _cpus(f"{self._at}/cpuset.cpus")
        # On v1 each group has CPUs of its own: all of them are none.
        return UnitLook(self.name, str(cpus or "") if not self._online() <= (cpus or CPUSet()) else "", runs=True)

    def effective(self) -> CPUSet:
        """Return where it may run."""
        return _cpus(f"{self._at}/{_EFFECTIVE[self._hierarchy.version]}") or self._online()

    def holes(self) -> Mapping[str, str]:
        """Return it if it is a container's, or has containers below it, or may have."""
        if self._is_containers:
            return {self.name: "is a container's"}
        if self._is_parent:
            return {self.name: "an engine makes containers there"}
        return {self.name: "has containers below it"} if holds_container(self._at) else {}

    async def confine(self, cpus: CPUSet) -> None:
        """Set its CPUs; none of its own if these are all. Raise EngineFailed."""
        enable_cpusets(self._hierarchy, os.path.dirname(self.name))
        is_free = self._hierarchy.version == 2 and self._online() <= cpus
        _write(f"{self._at}/cpuset.cpus", "" if is_free else str(cpus))


class RootTasks:
    """The tasks of the root group that are no kernel threads. Satisfies `HostPart`."""

    name = ROOT_TASKS

    def __init__(self, hierarchy: Hierarchy, online: Callable[[], CPUSet], tasks: HostTasks | None = None) -> None:
        self._hierarchy = hierarchy
        self._online = online
        self._tasks = tasks or HostTasks()
        self._file = "tasks" if hierarchy.version == 1 else "cgroup.procs"
        self._own = f"{hierarchy.root}{OWN}"
        self._refusing: frozenset[str] = frozenset()

    def look(self) -> UnitLook:
        """Return the CPUs of the group in which they are; none while they are in the root group."""
        cpus = _cpus(f"{self._own}/cpuset.cpus")
        return UnitLook(OWN if cpus else "", str(cpus or ""), runs=True)

    def effective(self) -> CPUSet:
        """Return where they may run: one in the root group, everywhere."""
        found = _cpus(f"{self._own}/{_EFFECTIVE[self._hierarchy.version]}")
        return self._online() if found is None or self._left() else found

    def holes(self) -> Mapping[str, str]:
        """Return the tasks that refused to move."""
        named = {task.name for task in self._tasks.of_users(self._in(self._hierarchy.root)) if self._refuses(task.key)}
        return {f"{ROOT_TASKS} ({name})": "refuses to move" for name in sorted(named)}

    async def confine(self, cpus: CPUSet) -> None:
        """Have them in a group with these CPUs; back in the root group if these are all. Raise EngineFailed."""
        await trio.to_thread.run_sync(self._bring_back if self._online() <= cpus else lambda: self._shield(cpus))

    def _shield(self, cpus: CPUSet) -> None:
        enable_cpusets(self._hierarchy, "")
        with suppress(FileExistsError):
            _make(self._own)
        if self._hierarchy.version == 1 and not (read(f"{self._own}/cpuset.mems") or b"").strip():
            _write(f"{self._own}/cpuset.mems", (read(f"{self._hierarchy.root}/cpuset.mems") or b"").decode().strip())
        _write(f"{self._own}/cpuset.cpus", str(cpus))
        for _ in range(_ROUNDS):
            left = self._left()
            if not left:
                return
            for task in left:
                if not self._moved(task.id, self._own):
                    self._refusing |= {task.key}

    def _bring_back(self) -> None:
        if not os.path.isdir(self._own):
            return
        for _ in range(_ROUNDS):
            inside = self._in(self._own)
            if not inside:
                break
            for id in inside:
                self._moved(id, self._hierarchy.root)
        self._refusing = frozenset()
        try:
            os.rmdir(self._own)
        except FileNotFoundError:
            return
        except OSError as error:
            raise EngineFailed(f"{self._own} cannot be removed: {reason(error)}") from error

    def _left(self) -> list[Task]:
        """Return the tasks of the root group that can be moved."""
        there = self._tasks.of_users(self._in(self._hierarchy.root))
        return [task for task in there if not self._refuses(task.key)]

    def _refuses(self, key: str) -> bool:
        return key in self._refusing

    def _in(self, directory: str) -> list[int]:
        """Return the tasks of a group. What is not visible from here is 0 on v2."""
        try:
            with open(f"{directory}/{self._file}", encoding="ascii") as file:
                return [int(line) for line in file if line.strip() not in ("", "0")]
        except OSError:
            return []

    def _moved(self, id: int, directory: str) -> bool:
        """Move a task; return False if it refuses. One that is gone does not."""
        try:
            Path(f"{directory}/{self._file}").write_text(str(id), encoding="ascii")
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return True


def is_hosts_own(hierarchy: Hierarchy) -> bool:
    """Return whether the root of a hierarchy is that of the host, and not a group which is shown as one: only then are
    the kernel's threads and workqueues below it.
    """
    if hierarchy.version == 1:
        return os.path.exists(f"{hierarchy.root}/cgroup.sane_behavior")
    # cgroups(7): the root has no type.
    return os.path.exists(f"{hierarchy.root}/cgroup.max.depth") and not os.path.exists(f"{hierarchy.root}/cgroup.type")


def enable_cpusets(hierarchy: Hierarchy, path: str) -> None:
    """Have the groups in the group at this path have cpusets (v2). Raise EngineFailed."""
    if hierarchy.version == 1:
        return
    at = hierarchy.root
    for part in ("", *path.strip("/").split("/")):
        at = f"{at}/{part}" if part else at
        if b"cpuset" not in (read(f"{at}/cgroup.subtree_control") or b"").split():
            _write(f"{at}/cgroup.subtree_control", "+cpuset")


def _make(directory: str) -> None:
    try:
        os.mkdir(directory)
    except FileExistsError:
        raise
    except OSError as error:
        raise EngineFailed(f"{directory} cannot be made: {reason(error)}") from error


def _cpus(file: str) -> CPUSet | None:
    """Return the set in a cgroup's file; None if it is empty, gone, or not a list."""
    try:
        return CPUSet.parse((read(file) or b"").decode("ascii")) or None
    except (UnicodeDecodeError, CPUSetError):
        return None


def _write(file: str, text: str) -> None:
    try:
        # An empty text would write nothing at all.
        Path(file).write_text(f"{text}\n", encoding="ascii")
    except OSError as error:
        raise EngineFailed(f"{file} cannot be written: {reason(error)}") from error
