"""A noisy neighbour: a busy process for every CPU of the machine, each of which records the CPUs that it runs on.

Each process writes two JSON lines a second on stdout: for each CPU, when it was first and last there, in
CLOCK_MONOTONIC nanoseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time

SECOND = 1_000_000_000


def say(kind: str, **facts: object) -> None:
    """Write one line, at once."""
    sys.stdout.write(json.dumps({"kind": kind, "at": time.monotonic_ns(), **facts}) + "\n")
    sys.stdout.flush()


def burn(number: int) -> None:
    """Work until ended, asking the kernel each time which CPU this is (sched_getcpu(3))."""
    where = ctypes.CDLL(None, use_errno=True).sched_getcpu
    clock = time.monotonic_ns
    while True:
        began = now = clock()
        seen: dict[int, list[int]] = {}
        while now - began < SECOND // 2:
            # Time first: a record must not be later than the visit.
            now = clock()
            cpu = where()
            visit = seen.setdefault(cpu, [now, now])
            visit[1] = now
        say("ran", process=number, seen={str(cpu): visit for cpu, visit in seen.items()})


def main() -> None:
    """Start one process per CPU of the machine, whatever this container may use."""
    say("started")
    children = []
    for number in range(os.cpu_count() or 1):
        child = os.fork()
        if child == 0:
            burn(number)
        children.append(child)

    def end(*_: object) -> None:
        for child in children:
            os.kill(child, signal.SIGKILL)
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.pause()


if __name__ == "__main__":
    main()
