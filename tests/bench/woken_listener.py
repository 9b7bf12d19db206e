"""A workload that says when it knew its CPUs: `python -m tests.bench.woken_listener WAY DIRECTORY`.

For the present projection, if there is one, and for each change of CPUs, a line: the monotonic clock in nanoseconds,
taken as the first act with the CPUs in hand, and the CPUs. The ways are ProjectionWatch in plain Python, on trio and on
asyncio, and the kernel's inotify by hand.
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
    """Print the line, if these are not the CPUs known already; what is known now."""
    now = time.monotonic_ns()
    if cpus != known:
        os.write(1, f"{now} {cpus}\n".encode())
    return cpus


def in_plain_python(directory: Path) -> None:
    """As in the first lines of `state.watch`."""
    known = None
    with ProjectionWatch(directory) as watch:
        for projection in watch.changes():
            known = tell(projection.cpus, known)


async def in_a_loop(directory: Path) -> None:
    """The same in a task."""
    known = None
    with ProjectionWatch(directory) as watch:
        async for projection in watch.achanges():
            known = tell(projection.cpus, known)


def on_trio(directory: Path) -> None:
    """With trio's loop."""
    anyio.run(in_a_loop, directory, backend="trio")


def on_asyncio(directory: Path) -> None:
    """With asyncio's loop."""
    anyio.run(in_a_loop, directory, backend="asyncio")


def by_hand(directory: Path) -> None:
    """No more than must be: one blocking read an event, one file, one `json.loads`. It survives nothing unusual."""
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
