"""The judge of a host: which processes may run on an owner's CPU and for how long, from /proc alone."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from state.cpuset import CPUSet
from tests.live.sidecarprocess import LAST
from tests.live.waiting import PATIENCE

BOUND: Final = 1.0
"""Seconds for which a process of the host may be allowed on an owner's CPU."""

_KTHREADD: Final = 2
_PAUSE: Final = 0.05


def intruders(owner: str) -> list[str]:
    """Return the processes that may run on the owner's CPU, and are neither its own nor the kernel's."""
    return intruders_on(LAST, owner)


def intruders_on(cpus: CPUSet, owner: str) -> list[str]:
    """Return the same for an owner of these CPUs, by a part of its cgroup's path."""
    return sorted(seen(owner, cpus).values())


def seen(owner: str, cpus: CPUSet = LAST) -> dict[tuple[int, str], str]:
    """Return the same by id and start, which no two processes share."""
    found = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with suppress(OSError, IndexError):
            status = dict(
                line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
            )
            is_of_kernel = pid == _KTHREADD or status["PPid"] == str(_KTHREADD)
            if is_of_kernel or cpus.isdisjoint(CPUSet.parse(status["Cpus_allowed_list"])):
                continue
            group = Path(f"/proc/{pid}/cgroup").read_text().strip()
            start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
            if owner not in group and status["State"][0] not in "ZX":
                found[pid, start] = f"{status['Name']} {group}"
    return found


class HostJudge:
    """Looks all the time. `late` are processes that stayed allowed for longer than the bound; `longest` is in seconds,
    as far as it saw; `looks` is how often it looked.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._since: dict[tuple[int, str], float] = {}
        self._is_over = threading.Event()
        self._has_eyes = threading.Lock()
        self.late: list[str] = []
        self.longest = 0.0
        self.looks = 0

    def run(self) -> None:
        """Look until it is over."""
        while not self._is_over.wait(_PAUSE):
            with self._has_eyes:
                self._look()

    def end(self) -> None:
        """Have it look no more."""
        self._is_over.set()

    @contextmanager
    def looking_away(self) -> Iterator[None]:
        """Look at nothing for the block: what is there at its end was not there before."""
        with self._has_eyes:
            self._since = {}
            yield

    def _look(self) -> None:
        now, there = time.monotonic(), seen(self._owner)
        self.looks += 1
        self._since = {key: self._since.get(key, now) for key in there}
        for key, since in self._since.items():
            self.longest = max(self.longest, now - since)
            if now - since > BOUND * PATIENCE and there[key] not in self.late:
                self.late.append(there[key])


@contextmanager
def judged(owner: str) -> Iterator[HostJudge]:
    """Judge the host for the length of the block."""
    judge = HostJudge(owner)
    thread = threading.Thread(target=judge.run)
    thread.start()
    try:
        yield judge
    finally:
        judge.end()
        thread.join()
