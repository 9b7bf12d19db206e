"""An elastic workload: a busy process for each CPU that it has. It follows: it leaves CPUs before they are taken,
acknowledges that, and uses new ones. With `--deaf` it reads its projection, but neither leaves nor acknowledges.

It writes one JSON line on stdout for each event, and two a second for each busy process: which CPUs it was on, and
when. All times are CLOCK_MONOTONIC in nanoseconds, which all containers of a host share.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from types import FrameType

from state import ack
from state.cpuset import CPUSet
from state.errors import ProjectionError
from state.projection import Reading, Sharing
from state.watch import ProjectionWatch

NOTE = 500_000_000
MOST = 32  # visits in one note: a write of up to 4096 bytes is whole, pipe(7)
TURN = 2_000_000
PAUSE_SECONDS = 0.002  # where a server would wait for its next request
VISIT = 20_000_000  # after more than this time away, coming back to a CPU is another visit


def report(kind: str, **facts: object) -> None:
    """Write one line, at once and whole: signals and other processes write too."""
    os.write(1, (json.dumps({"kind": kind, "at": time.monotonic_ns(), **facts}) + "\n").encode())


class Workers:
    """The busy processes, oldest first."""

    def __init__(self) -> None:
        self._pids: list[int] = []

    def shrink(self, size: int) -> None:
        """End the surplus processes. Return when they have ended, and have reported where they were."""
        surplus, self._pids = self._pids[size:], self._pids[:size]
        for pid in surplus:
            os.kill(pid, signal.SIGTERM)
        for pid in surplus:
            os.waitpid(pid, 0)

    def move(self, cpus: CPUSet) -> None:
        """Leave all other CPUs, with this process too: processes that it starts inherit that."""
        for pid in (0, *self._pids):
            try:
                os.sched_setaffinity(pid, cpus)
            except OSError:
                continue  # the CPUs are gone again: the next change will show it

    def grow(self, size: int) -> None:
        """Start the missing processes."""
        while len(self._pids) < size:
            # Until it sets its own handler, a child has its parent's.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            pid = os.fork()
            if pid == 0:
                burn()
            self._pids.append(pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def burn() -> None:
    """Work until SIGTERM, asking the kernel repeatedly which CPU this is (sched_getcpu(3))."""
    where = ctypes.CDLL(None, use_errno=True).sched_getcpu
    clock = time.monotonic_ns
    ends = False

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal ends
        ends = True

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    while not ends:
        began = now = turn = clock()
        seen: list[list[int]] = []
        latest: dict[int, list[int]] = {}
        while now - began < NOTE and len(seen) < MOST and not ends:
            # Time first: a record must not be later than the visit.
            now = clock()
            cpu = where()
            visit = latest.get(cpu)
            if visit is None or now - visit[2] > VISIT:
                visit = latest[cpu] = [cpu, now, now]
                seen.append(visit)
            visit[2] = now
            if now - turn > TURN:
                time.sleep(PAUSE_SECONDS)
                turn = clock()
        report("ran", seen=seen)
    os._exit(0)


def hear(told: Reading) -> None:
    """Report each change of the projection."""
    report(
        "told",
        cpus=str(told.cpus),
        leaving=str(told.leaving),
        desired=str(told.desired),
        arriving=str(told.arriving),
        original=str(told.original),
        deadline=told.deadline_seconds,
        sharing=str(told.sharing),
        settled=told.settled,
        alone=told.alone,
        vouched=told.vouched,
        generation=told.generation,
        reason=told.reason,
    )


def follow(workers: Workers, watch: ProjectionWatch, told: Reading) -> None:
    """Leave, acknowledge, and only then use new CPUs."""
    usable = told.cpus - told.leaving
    if not usable:
        return
    # In the shared pool one process is enough: other containers work there too.
    size = len(usable) if told.sharing is Sharing.EXCLUSIVE else 1
    workers.shrink(size)
    workers.move(usable)
    if told.leaving:
        report("left", cpus=str(told.leaving), keeps=str(usable))
        try:
            ack.write(watch.directory, told.generation)
            report("acknowledged", cpus=str(told.leaving), generation=told.generation)
        except ProjectionError as error:
            report("could not acknowledge", why=str(error))
    workers.grow(size)


def main() -> None:
    """Follow until ended."""

    def end(_number: int, _frame: FrameType | None) -> None:
        workers.shrink(0)
        report("ended")
        os._exit(0)

    workers, is_deaf = Workers(), "--deaf" in sys.argv[1:]
    # The first process of a container has no default action for signals.
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGHUP, lambda *_: report("signalled", name="HUP"))
    report("started")
    with ProjectionWatch() as watch:
        for told in watch.changes():
            hear(told)
            if is_deaf:
                workers.grow(len(told.cpus) if told.sharing is Sharing.EXCLUSIVE else 1)
            else:
                follow(workers, watch, told)


if __name__ == "__main__":
    main()
