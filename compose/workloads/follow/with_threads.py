"""A pool of threads, as many as there are CPUs, that follows them: plain Python with ProjectionWatch."""

from __future__ import annotations

import hashlib
import os
import sys
import threading

from state import ack
from state.cpuset import CPUSet
from state.errors import ProjectionError
from state.projection import Reading
from state.watch import ProjectionWatch


class Pool:
    """Threads that work until each one's event is set."""

    def __init__(self) -> None:
        self._workers: list[tuple[threading.Thread, threading.Event]] = []

    def shrink(self, size: int) -> None:
        """End the surplus threads. Return when they have ended."""
        surplus, self._workers = self._workers[size:], self._workers[:size]
        for _, ends in surplus:
            ends.set()
        for thread, _ in surplus:
            thread.join()

    def grow(self, size: int) -> None:
        """Start the missing threads. A new thread inherits the CPUs of the one that starts it."""
        while len(self._workers) < size:
            ends = threading.Event()
            thread = threading.Thread(target=work, args=(ends,), daemon=True)
            thread.start()
            self._workers.append((thread, ends))


def work(ends: threading.Event) -> None:
    """Do work that releases the interpreter's lock; the pause is where a server waits for its next request."""
    while not ends.wait(0.001):
        hashlib.sha256(bytes(1 << 16)).digest()


def line_of(told: Reading) -> str:
    """Return what is told. If the daemon does not vouch for it any more, keep what you have: others may be there."""
    leaving = f", leaving {told.leaving}" if told.leaving else ""
    return f"CPUs {told.cpus}{leaving}{'' if told.vouched else ', unvouched'}"


def move_threads(cpus: CPUSet) -> None:
    """Move all threads of this process, including those of libraries."""
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cpus)
        except OSError:
            # It has ended, or the CPUs are gone again: the next change will show it.
            continue


def main() -> None:
    """Follow until ended."""
    pool = Pool()
    with ProjectionWatch() as watch:
        for told in watch.changes():
            print(line_of(told), flush=True)
            if not (usable := told.cpus - told.leaving):
                continue
            # First leave, then acknowledge.
            pool.shrink(len(usable))
            move_threads(usable)
            if told.leaving:
                try:
                    ack.write(watch.directory, told.generation)
                except ProjectionError as error:
                    print(error, file=sys.stderr, flush=True)
            pool.grow(len(usable))


if __name__ == "__main__":
    main()
