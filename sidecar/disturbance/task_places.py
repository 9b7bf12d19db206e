"""Where a task belongs: a container, a unit of systemd, or the kernel. Read from /proc while it lives."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

_EXITING: Final = 0x00000004
_KERNEL_THREAD: Final = 0x00200000
_BOUND: Final = 0x04000000
"""PF_EXITING, PF_KTHREAD and PF_NO_SETAFFINITY of include/linux/sched.h."""

_HOSTS_NAMESPACE: Final = f"pid:[{0xEFFFFFFC}]"
"""PROC_PID_INIT_INO of include/linux/proc_ns.h: the first namespace, which is never another one."""

_ID: Final = re.compile(r"(?:^|[-:])([0-9a-f]{64})(?:\.scope)?$")
_UNIT: Final = re.compile(r"\.(?:service|scope|slice)$")

_SHORT: Final = 12


class TaskPlace(NamedTuple):
    """A container's full id or "", and the innermost unit or group that is not the root's; what the kernel says of the
    task. `above` are the units in which that is.
    """

    container: str = ""
    unit: str = ""
    is_kernel: bool = False
    is_bound: bool = False
    above: tuple[str, ...] = ()

    def is_of(self, owner: str) -> bool:
        """Return whether the task is an owner's: a container's by its id, or a unit's by its name."""
        return owner in (self.container, self.unit, *self.above)


def sees_every_task(proc: str = "/proc") -> bool:
    """Return whether tasks have the numbers here that the kernel's trace has: those of the host's own PID namespace.

    In another one an owner's tasks would be taken for others.
    """
    try:
        return os.readlink(f"{proc}/self/ns/pid") == _HOSTS_NAMESPACE
    except OSError:
        return False


def place_of(task: int, proc: str = "/proc") -> TaskPlace | None:
    """Return where a task is; None if it has ended. A thread's id is as good as a process's.

    One that is ending is in the root group on cgroup v1 (kernel/cgroup/cgroup.c, `proc_cgroup_show`), which is where it
    never was: so the group is read first, and believed if the task is not ending after that.
    """
    try:
        with open(f"{proc}/{task}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            paths = [line.split(":", 2)[2] for line in file.read().splitlines() if line.count(":") >= 2]
        with open(f"{proc}/{task}/stat", encoding="ascii", errors="replace") as file:
            flags = int(file.read().rpartition(")")[2].split()[6])
    except (OSError, IndexError, ValueError):
        return None
    if flags & _EXITING:
        return None
    if flags & _KERNEL_THREAD:
        return TaskPlace(is_kernel=True, is_bound=bool(flags & _BOUND))
    unit = _unit(paths)
    above = (name for path in paths for name in path.split("/") if name != unit and _UNIT.search(name))
    return TaskPlace(container=_container(paths), unit=unit, above=tuple(dict.fromkeys(above)))


def tasks_of(owners: Collection[str], proc: str = "/proc") -> Iterator[tuple[int, TaskPlace]]:
    """Yield the tasks of these owners, with where they are."""
    for process in os.listdir(proc):
        if not process.isdigit() or (place := place_of(int(process), proc)) is None:
            continue
        if any(map(place.is_of, owners)):
            try:
                threads = os.listdir(f"{proc}/{process}/task")
            except OSError:
                continue
            yield from ((int(thread), place) for thread in threads)


def waited(tasks: Collection[int], proc: str = "/proc") -> Mapping[int, int]:
    """Return for how many nanoseconds each of these tasks has waited for a CPU since it began, of those that live."""
    found = {}
    for task in tasks:
        try:
            with open(f"{proc}/{task}/schedstat", encoding="ascii") as file:
                found[task] = int(file.read().split()[1])
        except (OSError, IndexError, ValueError):
            continue
    return found


def label(place: TaskPlace | None, names: Mapping[str, str]) -> str:
    """Return what a task belongs to, for people; "" if that is not known. `names` are those of containers by id."""
    if place is None or place.is_kernel:
        return ""
    if place.container:
        return f"container {names.get(place.container) or place.container[:_SHORT]}"
    return place.unit


def _container(paths: list[str]) -> str:
    """Return the id in the innermost group that has one: a container may have groups of its own."""
    for path in paths:
        for name in reversed(path.split("/")):
            if found := _ID.search(name):
                return found[1]
    return ""


def _unit(paths: list[str]) -> str:
    for path in paths:
        for name in reversed(path.split("/")):
            if _UNIT.search(name):
                return name
    return max((path for path in paths if path != "/"), key=len, default="")
