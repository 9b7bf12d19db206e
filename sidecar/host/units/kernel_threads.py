"""KernelThreads and Workqueues: what of the kernel can be kept off CPUs, as two units of the host.

Threads that the kernel binds to their CPU refuse to move, and are named. Threads of interrupts follow their interrupts.
All others have an affinity, which is narrowed, and restored from a record (`host_record`); one whose own CPUs are all
taken stays where it is, and is named as well. Unbound work of the kernel is done by threads that it binds itself: where
these may run is one file for all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio
from msgspec.structs import replace

from sidecar.failures import EngineFailed
from sidecar.host.units.host_record import HostRecord
from sidecar.host.units.host_tasks import HostTasks, Task
from sidecar.host_ports import UnitLook
from sidecar.words.counts import some
from state.cpuset import CPUSet
from state.files import reason

THREADS: Final = "kernel-threads"
QUEUES: Final = "workqueues"
BOUND: Final = "bound-kernel-threads"
REFUSING: Final = "some-kernel-threads"
"""What the threads are called that stay, among what is not confined."""

_WHY_REFUSED: Final = "they refuse, have no other CPU, or the sidecar lacks CAP_SYS_NICE"

MASK: Final = "/sys/devices/virtual/workqueue/cpumask"

_OF_INTERRUPT: Final = "irq/"
_OF_ONE_CPU: Final = re.compile(r"[/:]\d.*|-?\d+$")
"""What follows the names of threads of which each CPU has one."""

_SHOWN: Final = 6

_ROUNDS: Final = 3
"""A thread may come while the others are moved."""

GetAffinity = Callable[[int], Collection[int]]
SetAffinity = Callable[[int, Iterable[int]], None]


class KernelThreads:
    """The kernel's threads that can be moved. Satisfies `HostPart`."""

    name = THREADS

    def __init__(
        self,
        record: HostRecord,
        online: Callable[[], CPUSet],
        *,
        tasks: HostTasks | None = None,
        affinity: GetAffinity = os.sched_getaffinity,
        set_affinity: SetAffinity = os.sched_setaffinity,
    ) -> None:
        self._record = record
        self._online = online
        self._tasks = tasks or HostTasks()
        self._affinity = affinity
        self._set_affinity = set_affinity
        self._refusing: frozenset[str] = frozenset()

    def look(self) -> UnitLook | None:
        """Return to which CPUs they are confined; None if none is visible."""
        if not any(self._free()):
            return None
        return UnitLook("", str(self._record.latest.thread_cpus or ""), runs=True)

    def effective(self) -> CPUSet:
        """Return where they may run: a thread that came since they were confined may run everywhere."""
        recorded, online = self._record.latest, self._online()
        if recorded.thread_cpus is None:
            return online
        mask = recorded.thread_cpus.mask
        for task in self._free():
            if task.key not in self._refusing:
                mask |= self._allowed(task).mask
        return CPUSet.from_mask(mask) & online

    def holes(self) -> Mapping[str, str]:
        """Return the threads that stay where they are."""
        threads = self._tasks.of_kernel()
        bound = [task for task in threads if task.is_bound]
        refusing = [task for task in threads if task.key in self._refusing]
        told = {BOUND: ("the kernel keeps them on their CPUs", bound), REFUSING: (_WHY_REFUSED, refusing)}
        return {name: f"{why}: {_names(found)}" for name, (why, found) in told.items() if found}

    async def confine(self, cpus: CPUSet) -> None:
        """Keep them off all other CPUs; restore what they had if these are all. Raise EngineFailed."""
        await trio.to_thread.run_sync(self._restore if self._online() <= cpus else lambda: self._narrow(cpus))

    def _narrow(self, cpus: CPUSet) -> None:
        for _ in range(_ROUNDS):
            self._narrow_once(cpus)
            if self.effective() <= cpus:
                return

    def _narrow_once(self, cpus: CPUSet) -> None:
        self._tasks.read_again()
        free = list(self._free())
        recorded = self._record.latest
        had = {task.key: recorded.threads.get(task.key) or self._allowed(task) for task in free}
        self._record.change(lambda known: replace(known, threads=had, thread_cpus=cpus))
        refusing = [task for task in free if not (wanted := had[task.key] & cpus) or not self._moved(task, wanted)]
        self._refusing = frozenset(task.key for task in refusing)
        self._tasks.read_again()

    def _restore(self) -> None:
        self._tasks.read_again()
        recorded, online = self._record.latest, self._online()
        for task in self._free():
            if own := recorded.threads.get(task.key):
                # One that was allowed everywhere is, also on CPUs that come later.
                everywhere = CPUSet.from_mask((1 << (os.cpu_count() or 1)) - 1) | online
                self._moved(task, everywhere if online <= own else own)
        self._refusing = frozenset()
        self._record.change(lambda known: replace(known, threads={}, thread_cpus=None))

    def _moved(self, task: Task, cpus: CPUSet) -> bool:
        """Move a thread; return False if it refuses. One that is gone does not."""
        try:
            self._set_affinity(task.id, tuple(cpus))
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return True

    def _allowed(self, task: Task) -> CPUSet:
        with suppress(OSError):
            return CPUSet.of(*self._affinity(task.id))
        return CPUSet()

    def _free(self) -> Iterable[Task]:
        return (
            task
            for task in self._tasks.of_kernel()
            if not task.is_bound and not task.name.startswith(_OF_INTERRUPT) and self._allowed(task)
        )


def _names(tasks: Iterable[Task]) -> str:
    names = sorted({_OF_ONE_CPU.sub("", task.name) for task in tasks})
    return some(names[:_SHOWN], of=len(names))


class Workqueues:
    """Unbound work of the kernel. Satisfies `HostPart`."""

    name = QUEUES

    def __init__(self, record: HostRecord, online: Callable[[], CPUSet], mask: str | Path = MASK) -> None:
        self._record = record
        self._online = online
        self._mask = str(mask)

    def look(self) -> UnitLook | None:
        """Return to which CPUs the work is confined; None if that cannot be changed, or is by others."""
        found = self._found()
        if found is None or not os.access(self._mask, os.W_OK) or self._is_others(found):
            return None
        return UnitLook("", str(found) if self._record.latest.workqueues else "", runs=True)

    def effective(self) -> CPUSet:
        """Return where it may be done."""
        return (self._found() or self._online()) & self._online()

    def holes(self) -> Mapping[str, str]:
        """Return it if others confined it."""
        found = self._found()
        return {QUEUES: f"were confined to {found} by others"} if found and self._is_others(found) else {}

    async def confine(self, cpus: CPUSet) -> None:
        """Have it done there alone; as before if these are all CPUs. Raise EngineFailed."""
        recorded = self._record.latest
        if self._online() <= cpus:
            self._write(recorded.workqueues or cpus)
            self._record.change(lambda known: replace(known, workqueues=None, workqueue_cpus=None))
            return
        had = recorded.workqueues or self._found() or self._online()
        self._record.change(lambda known: replace(known, workqueues=had, workqueue_cpus=cpus))
        self._write(cpus)

    def _is_others(self, found: CPUSet) -> bool:
        return self._record.latest.workqueues is None and not self._online() <= found

    def _found(self) -> CPUSet | None:
        with suppress(OSError, ValueError), open(self._mask, encoding="ascii") as file:
            return CPUSet.from_mask(int(file.read().strip().replace(",", ""), 16))
        return None

    def _write(self, cpus: CPUSet) -> None:
        digits = f"{cpus.mask:x}"
        padded = digits.zfill(-(-len(digits) // 8) * 8)
        text = ",".join(padded[at : at + 8] for at in range(0, len(padded), 8))
        try:
            Path(self._mask).write_text(text, encoding="ascii")
        except OSError as error:
            raise EngineFailed(f"{self._mask} cannot be written: {reason(error)}") from error
