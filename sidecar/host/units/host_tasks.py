"""The kernel's own threads among the tasks of a host, and those of them that it binds to a CPU (proc_pid_stat(5)).

Which a task is never changes, so it is read once for each: a host has hundreds, and is looked at every second. An id
whose task was gone at one reading is read again; for another task to have it, all ids must have come round between two.
All are read again around a move (`read_again`): the kernel binds a thread soon after it made it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from sidecar.host.cgroup.places import read

_OF_KERNEL: Final = 0x00200000
"""PF_KTHREAD (include/linux/sched.h)."""

_BOUND: Final = 0x04000000
"""PF_NO_SETAFFINITY: the kernel lets no one move it."""

_ZOMBIE: Final = "Z"

KTHREADD: Final = 2
"""The parent of all kernel threads."""


class Task(NamedTuple):
    """A task: its id, its name, its start in ticks since the boot, and what it is."""

    id: int
    name: str
    start: str
    is_of_kernel: bool
    is_bound: bool
    is_over: bool

    @property
    def key(self) -> str:
        """What no other task of this boot has: ids are used again."""
        return f"{self.id} {self.start}"


class HostTasks:
    """The tasks below a mount of /proc."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._of_kernel: frozenset[int] = frozenset()
        self._threads: dict[int, Task] = {}
        """The kernel's threads at the last reading, by their ids."""
        self._others: frozenset[int] = frozenset()
        """What was none of them then."""

    def task(self, id: int) -> Task | None:
        """Return a task; None if it is gone."""
        text = (read(f"{self._proc}/{id}/stat") or b"").decode("utf-8", "replace")
        head, _, rest = text.rpartition(")")
        fields = rest.split()
        if len(fields) < 20 or not fields[6].isdigit():
            return None
        flags = int(fields[6])
        return Task(
            id=id,
            name=head.partition("(")[2],
            start=fields[19],
            is_of_kernel=bool(flags & _OF_KERNEL),
            is_bound=bool(flags & _BOUND),
            is_over=fields[0] == _ZOMBIE,
        )

    def of_users(self, ids: Iterable[int]) -> list[Task]:
        """Return those of these tasks that are no kernel threads, and are not over."""
        there = frozenset(ids)
        self._of_kernel &= there
        found = [task for id in sorted(there - self._of_kernel) if (task := self.task(id))]
        self._of_kernel |= {task.id for task in found if task.is_of_kernel}
        return [task for task in found if not task.is_of_kernel and not task.is_over]

    def of_kernel(self) -> list[Task]:
        """Return the kernel's threads; none where they are not visible, as in a container."""
        there = dict.fromkeys(self._children())
        known = self._threads
        found = [task for id in there if id not in self._others and (task := known.get(id) or self.task(id))]
        self._threads = {task.id: task for task in found if task.is_of_kernel and not task.is_over}
        others = {task.id for task in found if not task.is_of_kernel}
        self._others = frozenset(id for id in there if id in self._others or id in others)
        return list(self._threads.values())

    def read_again(self) -> None:
        """Read all threads of the kernel again when they are next asked for."""
        self._threads, self._others = {}, frozenset()

    def _children(self) -> Iterator[int]:
        """Yield the ids of what may be a kernel thread: children of kthreadd, if the kernel lists them."""
        listed = read(f"{self._proc}/{KTHREADD}/task/{KTHREADD}/children")
        if listed is not None:
            yield from (int(id) for id in listed.split())
            return
        with suppress(OSError):
            yield from (int(name) for name in os.listdir(self._proc) if name.isdigit())
