"""Repair of the effects of offlined CPUs on cgroup v1.

On v1 an offlined CPU is removed from `cpuset.cpus` of every group permanently: it does not return with the CPU. The
processes of a group that loses its last CPU are moved to the nearest ancestor that has some, and they stay there, next
to all others, when the group gets CPUs again (cpuset(7); tests/live/test_astray.py). So:

1. From the root down, the groups above containers regain CPUs: an engine's own group regains all of the root's; a
   group made by hand only those that it was seen to have, as it may be small on purpose. Containers' own groups are not
   changed here: a decision determines their CPUs, and the engine writes them.
2. Processes that fell out of their container's group are found by its groups in other hierarchies, which CPUs do not
   affect, and return as soon as the group has CPUs.
3. A group without CPUs lost them only if it has memory nodes. No process enters a group that lacks either (cpuset(7),
   ENOSPC), and runc writes the CPUs first (1.1.5, strace): one that is empty of both was just made. One without files
   is gone.

Calling it again changes nothing more. It needs a writable /sys/fs/cgroup, and the host's process ids: without these, a
container whose group was seen without CPUs is assumed to be astray until its next start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from sidecar.astray import Astray, AstrayKind
from sidecar.decide.facts import ContainerView
from sidecar.host.cgroup.descent import processes_below
from sidecar.host.cgroup.places import (
    Hierarchy,
    find_directory,
    has_place,
    read,
    read_or_raise,
    v1_hierarchy,
    v2_hierarchy,
)
from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError, FileUnreadable

_ENGINES_OWN: Final = ("/docker", "/libpod_parent", "/machine.slice", "/system.slice")
"""Groups that engines make with all CPUs, below the hierarchy's root."""

_OTHERS: Final = ("memory", "pids", "freezer", "devices", "cpuacct", "systemd")
"""Controllers in whose hierarchies a container's processes are looked for; none of them moves a process by itself."""

_ROUNDS: Final = 3
"""A process may fork while it is moved, and leave its child behind: look again."""


class Mender:
    """Mends one host; remembers what the groups above containers had."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._had: dict[str, CPUSet] = {}
        self._ceiling: CPUSet | None = None
        self._emptied: dict[str, str] = {}
        """Containers whose group was seen without CPUs, and in which of their starts."""

    def mend(self, hierarchy: Hierarchy, mount: str, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        """Mend the v1 `hierarchy` for these containers; the other hierarchies are at `mount`. Return what could not be
        mended.
        """
        groups = [(view, directory) for view in views if (directory := _directory(hierarchy, view, self._proc))]
        found = self._widen(hierarchy, [directory for _, directory in groups])
        others = [each for each in _others(mount) if each.root != hierarchy.root]
        for view, directory in groups:
            # What a tenant does to its groups costs no other container its mending.
            try:
                astray = self._bring_home(hierarchy, others, view, directory)
            except Exception as error:
                astray = Astray(kind=AstrayKind.UNKNOWN, container=view.name, error=f"{type(error).__name__}: {error}")
            if astray:
                found.append(astray)
        return tuple(found)

    def has_strayed(self, hierarchy: Hierarchy, directory: str, view: ContainerView) -> bool:
        """Return whether a live container's processes are not in this group of its own, but in one above it.

        If they are not visible, that is assumed from the time when the group was seen without CPUs until the next
        start.
        """
        if read(f"{directory}/cgroup.procs"):
            self._emptied.pop(view.id, None)
            return False
        paths = self._cgroups(view)
        if not _names(paths, view.id):
            return self._emptied.get(view.id) == view.started_at
        return view.id not in _path_in(hierarchy, paths)

    def path_elsewhere(self, hierarchy: Hierarchy, view: ContainerView) -> str | None:
        """Return in which group a live container's first process is, as a path, if this one's name is not the
        container's; None if it is, or if the process is not visible.
        """
        paths = self._cgroups(view)
        at = _path_in(hierarchy, paths)
        return at if _names(paths, view.id) and at.startswith("/") and view.id not in at else None

    def _cgroups(self, view: ContainerView) -> list[tuple[str, str]]:
        """Return the groups of a container's first process: controllers and path of each hierarchy."""
        content = read(f"{self._proc}/{view.pid}/cgroup") if view.pid > 0 else None
        # proc_pid_cgroup(5): "hierarchy:controllers:path".
        parts = (line.split(":", 2) for line in (content or b"").decode("utf-8", "replace").splitlines())
        return [(part[1], part[2]) for part in parts if len(part) == 3]

    def _widen(self, hierarchy: Hierarchy, directories: list[str]) -> list[Astray]:
        """Give the parents CPUs back, from the root down: none may have a CPU that the one above it lacks (1)."""
        ceiling = _cpus(hierarchy.root)
        returned = EMPTY if self._ceiling is None else ceiling - self._ceiling
        self._ceiling = ceiling
        parents = {above for directory in directories for above in _above(hierarchy, directory)}
        narrowed = []
        for parent in sorted(parents, key=lambda path: (path.count("/"), path)):
            current = _cpus(parent)
            had = self._had[parent] = self._had.get(parent, EMPTY) | current
            is_engines = parent.removeprefix(hierarchy.root) in _ENGINES_OWN
            wanted = current | ((ceiling if is_engines else had & returned) & _cpus(os.path.dirname(parent)))
            if wanted == current:
                continue
            try:
                Path(f"{parent}/cpuset.cpus").write_text(str(wanted))
            except OSError as error:
                what, lost = str(error.strerror), wanted - current
                narrowed.append(Astray(kind=AstrayKind.NARROWED, cgroup=parent, lost=lost, wanted=wanted, error=what))
        return narrowed

    def _bring_home(
        self, hierarchy: Hierarchy, others: list[Hierarchy], view: ContainerView, directory: str
    ) -> Astray | None:
        """Move a container's processes back into its group (2). Return why that failed; None if it did not."""
        places = [place for each in others if (place := find_directory(each, view, self._proc))]
        if unreadable := _why_unreadable(directory):
            return Astray(kind=AstrayKind.UNREADABLE, container=view.name, error=unreadable)
        if _has_lost_cpus(directory):
            self._emptied[view.id] = view.started_at
        reason = ""
        for _ in range(_ROUNDS):
            inside, is_whole = processes_below(directory)
            # One that is deep inside its own group must not be taken for one that left it.
            elsewhere = {pid for place in places for pid in processes_below(place)[0]} if is_whole else set[int]()
            astray = sorted(elsewhere - inside)
            if not astray and not self.has_strayed(hierarchy, directory, view):
                return None
            if _has_lost_cpus(directory):
                return Astray(kind=AstrayKind.WITHOUT_CPUS, container=view.name)
            if not _cpus(directory):
                return None
            if not astray and not _names(self._cgroups(view), view.id):
                return Astray(kind=AstrayKind.UNSEEN, container=view.name)
            reason = _move(astray or [view.pid], directory) or reason
        return Astray(kind=AstrayKind.STUCK, container=view.name, error=reason) if reason else None


def _path_in(hierarchy: Hierarchy, paths: list[tuple[str, str]]) -> str:
    """Return which of these groups is in this hierarchy; "" if none is."""
    return next((path for controllers, path in paths if hierarchy.controller in controllers.split(",")), "")


def _names(paths: list[tuple[str, str]], id: str) -> bool:
    """Return whether these are the groups of the container with this id: a process ID may have been reused."""
    return any(id in path for _, path in paths)


def _directory(hierarchy: Hierarchy, view: ContainerView, proc: str) -> str | None:
    return find_directory(hierarchy, view, proc) if has_place(view) else None


def _others(mount: str) -> list[Hierarchy]:
    """Return the other mounted hierarchies, including v2 on a hybrid host."""
    v1 = (v1_hierarchy(mount, name, "cgroup.procs") for name in _OTHERS)
    return [each for each in (*v1, v2_hierarchy(mount)) if each]


def _above(hierarchy: Hierarchy, directory: str) -> Iterator[str]:
    """Yield the groups above this one, without the root, which follows the machine by itself."""
    at = os.path.dirname(directory)
    while at.startswith(f"{hierarchy.root}/"):
        yield at
        at = os.path.dirname(at)


def _move(processes: list[int], directory: str) -> str:
    """Move processes into a group. Return why one could not be moved; "" if all could."""
    reason = ""
    for pid in processes:
        try:
            Path(f"{directory}/cgroup.procs").write_text(str(pid))
        except ProcessLookupError:
            continue
        except OSError as error:
            reason = error.strerror or str(error)
    return reason


def _why_unreadable(directory: str) -> str:
    """Return why the CPUs of a group that is there cannot be read; "" if they can, or it is gone."""
    try:
        read_or_raise(f"{directory}/cpuset.cpus", denied=True)
    except FileUnreadable as error:
        return str(error)
    return ""


def _has_lost_cpus(directory: str) -> bool:
    """Return whether a group that had processes has no CPUs any more (3)."""
    # In this order: one that is being made has its CPUs by the time that it has memory nodes.
    had = (read(f"{directory}/cpuset.mems") or b"").strip()
    return bool(had) and read(f"{directory}/cpuset.cpus") in (b"", b"\n")


def _cpus(directory: str) -> CPUSet:
    """Return the CPUs that a group has; none if that cannot be read."""
    try:
        return CPUSet.parse((read(f"{directory}/cpuset.cpus") or b"").decode("ascii", "replace"))
    except CPUSetError:
        return EMPTY
