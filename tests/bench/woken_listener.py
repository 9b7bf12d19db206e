"""A workload that reports when it knew its CPUs: `python -m tests.bench.woken_listener WAY DIRECTORY`.

It prints a line for the present projection, if there is one, and for each change of CPUs: the monotonic clock in
nanoseconds, taken as the first act with the new CPUs, and the CPUs. The ways are ProjectionWatch in plain Python, on
trio and on asyncio, and the kernel's inotify by hand.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio

from state.cpuset import CPUSet
from state.watch import ProjectionWatch
from tests.state.raw_inotify import RawInotify

_IN_MOVED_TO: Final = 0x80


def tell(cpus: CPUSet, known: CPUSet | None) -> CPUSet:
    """Print the line, if these are not the CPUs known already; return the CPUs known now."""
    now = time.monotonic_ns()
    if cpus != known:
        os.write(1, f"{now} {cpus}\n".encode())
    return cpus


def in_plain_python(directory: Path) -> None:
    """Listen as in the first lines of `state.watch`."""
    known = None
    with ProjectionWatch(directory) as watch:
        for projection in watch.changes():
            known = tell(projection.cpus, known)


async def in_a_loop(directory: Path) -> None:
    """Listen likewise in a task."""
    known = None
    with ProjectionWatch(directory) as watch:
        async for projection in watch.achanges():
            known = tell(projection.cpus, known)


def on_trio(directory: Path) -> None:
    """Listen with trio's loop."""
    anyio.run(in_a_loop, directory, backend="trio")


def on_asyncio(directory: Path) -> None:
    """Listen with asyncio's loop."""
    anyio.run(in_a_loop, directory, backend="asyncio")


def by_hand(directory: Path) -> None:
    """Listen with the minimum: one blocking read per event, one file, one `json.loads`. Unusual events break it."""
    status = directory / "status.json"
    with RawInotify(directory, _IN_MOVED_TO) as raw:
        os.set_blocking(raw.fd, True)
        known = tell(CPUSet.parse(json.loads(status.read_bytes())["cpus"]), None)
        while True:
            os.read(raw.fd, 4096)
            known = tell(CPUSet.parse(json.loads(status.read_bytes())["cpus"]), known)


WAYS: Final[dict[str, Callable[[Path], None]]] = {
    "plain": in_plain_python,
    "trio": on_trio,
    "asyncio": on_asyncio,
    "raw": by_hand,
}


if __name__ == "__main__":
    WAYS[sys.argv[1]](Path(sys.argv[2]))
