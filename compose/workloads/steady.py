"""A workload that must not be disturbed: it works without a pause, and counts each interruption.

It writes one JSON line on stdout for each change of its projected files, and one for each second of work. All times are
CLOCK_MONOTONIC in nanoseconds, which all containers of a host share.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from state.watch import ProjectionWatch

SECOND = 1_000_000_000
STALL = 1_000_000  # a millisecond away from the CPU: ten thousand times the length of one turn of the loop


def report(kind: str, **facts: object) -> None:
    """Write one line, at once: two threads use this."""
    sys.stdout.write(json.dumps({"kind": kind, "at": time.monotonic_ns(), **facts}) + "\n")
    sys.stdout.flush()


def allowed() -> str:
    """Return the CPUs that the kernel lets this process run on, from its own status."""
    return status_field("Cpus_allowed_list")


def status_field(name: str) -> str:
    for line in Path("/proc/self/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return value.strip()
    raise LookupError(f"/proc/self/status has no {name}")


def watch() -> None:
    """Report each change of the projection."""
    for told in ProjectionWatch().changes():
        report(
            "told",
            cpus=str(told.cpus),
            sharing=str(told.sharing),
            settled=told.settled,
            alone=told.alone,
            vouched=told.vouched,
            generation=told.generation,
            allowed=allowed(),
        )


def work() -> None:
    """Work until ended; report each second of work."""
    clock = time.monotonic_ns
    while True:
        began = last = clock()
        used = time.thread_time_ns()
        switched = int(status_field("nonvoluntary_ctxt_switches"))
        waited = run_delay()
        stalls = longest = 0
        while last - began < SECOND:
            now = clock()
            if now - last > STALL:
                stalls += 1
                longest = max(longest, now - last)
            last = now
        report(
            "worked",
            began=began,
            share=round((time.thread_time_ns() - used) / (last - began), 4),
            stalls=stalls,
            longest_ms=round(longest / 1e6, 1),
            waited_ms=round((run_delay() - waited) / 1e6, 1),
            preempted=int(status_field("nonvoluntary_ctxt_switches")) - switched,
            allowed=allowed(),
        )


def run_delay() -> int:
    """Return the nanoseconds for which this thread was ready to run and had no CPU (second field of schedstat)."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1])


def main() -> None:
    """Watch in one thread, work in the main one."""
    # The first process of a container has no default action for signals: without this, each stop would take its whole
    # grace.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    report("started", allowed=allowed())
    threading.Thread(target=watch, daemon=True).start()
    work()


if __name__ == "__main__":
    main()
