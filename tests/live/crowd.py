"""A crowd: containers created and removed as fast as the engine allows, and what that costs the sidecar.

    python -m tests.live.crowd [--containers 1000] [--threads 4]

One in ten is started for a moment. Prints the engine's rate, the sidecar's memory, descriptors and threads before and
after, its processor time, how far it lagged behind at the end, and what is left, which should be nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tests.live.containers import Containers
from tests.live.engineapi import ApiError
from tests.live.image import ensure_image
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import ONE, WAITING

_KINDS: Final[tuple[dict[str, str], ...]] = ({}, {}, {}, dict(ONE), dict(WAITING), {"cpuset.projection": "crowd"})
_STARTED: Final = 0.1
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """What a process holds at one instant."""

    resident_kib: int
    peak_kib: int
    descriptors: int
    threads: int
    processor_seconds: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a crowd. `left` is its traces in the sidecar's State and files: there should be none."""

    containers: int
    started: int
    seconds: float
    per_minute: float
    before: Footprint
    after: Footprint
    lag_seconds: float
    gaps: int
    errors: dict[str, int]
    left: list[str]


def footprint(pid: int) -> Footprint:
    """Measure this process, from proc(5)."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Footprint(
        resident_kib=int(status["VmRSS"].split()[0]),
        peak_kib=int(status["VmHWM"].split()[0]),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        threads=int(status["Threads"]),
        processor_seconds=(int(times[11]) + int(times[12])) / _TICKS,
    )


def crowd(
    sidecar: SidecarProcess, workloads: Containers, *, containers: int, threads: int = 4, seed: int = 1
) -> Report:
    """Create and remove this many, and wait until the sidecar knows none of them."""
    before = footprint(sidecar.pid)
    errors: dict[str, int] = {}
    started = [0] * threads
    began = time.monotonic()
    users = [
        threading.Thread(target=_use, args=(workloads, range(n, containers, threads), seed + n, started, n, errors))
        for n in range(threads)
    ]
    for each in users:
        each.start()
    for each in users:
        each.join()
    seconds = time.monotonic() - began
    # Events come in order: once this one is known, so are the ends of all others.
    last = workloads.create("last")
    eventually(lambda: last in {each.id for each in sidecar.status().containers}, "the last is known", seconds=60)
    workloads.api.remove(last)
    eventually(lambda: not traces(sidecar, workloads.prefix), "nothing is left of them", seconds=60)
    lag = time.monotonic() - began - seconds
    return Report(
        containers=containers,
        started=sum(started),
        seconds=round(seconds, 1),
        per_minute=round(containers / seconds * 60),
        before=before,
        after=footprint(sidecar.pid),
        lag_seconds=round(lag, 2),
        gaps=sidecar.log().count("cannot be reached"),
        errors=errors,
        left=traces(sidecar, workloads.prefix),
    )


def traces(sidecar: SidecarProcess, prefix: str) -> list[str]:
    """Return where containers with this prefix are still known."""
    books = sidecar.books()
    found = [each.name for each in sidecar.status().containers if each.name.startswith(prefix)]
    found += [
        f"in the books: {key.short}" for key in {*books.assignments, *books.originals, *books.refusals, *books.lifts}
    ]
    for place in ("by-id", "by-name/crowd/by-id"):
        # A name's directory goes with its last container.
        with suppress(FileNotFoundError):
            found += [f"{place}/{each.name}" for each in (sidecar.projections / place).iterdir()]
    return found


def _use(
    workloads: Containers, numbers: range, seed: int, started: list[int], index: int, errors: dict[str, int]
) -> None:
    rng = random.Random(seed)
    for number in numbers:
        try:
            id = workloads.create(f"c{number}", labels=rng.choice(_KINDS))
            if rng.random() < _STARTED:
                workloads.api.act(id, "start")
                started[index] += 1
            workloads.api.remove(id)
        except ApiError as error:
            errors[error.message[:80]] = errors.get(error.message[:80], 0) + 1


def main() -> int:
    """Run the crowd on an engine of its own; return 0 if nothing is left of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--containers", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=4)
    args = parser.parse_args()
    engine = PrivateEngine()
    folder = Path(tempfile.mkdtemp(prefix="cpuset-crowd-"))
    sidecar = SidecarProcess(folder, engine.socket_path)
    try:
        engine.start()
        workloads = Containers(engine.api, ensure_image(engine.api))
        sidecar.start()
        crowd(sidecar, workloads, containers=20)
        report = crowd(sidecar, workloads, containers=args.containers, threads=args.threads)
    finally:
        sidecar.kill()
        engine.close()
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    return 1 if report.left else 0


if __name__ == "__main__":
    sys.exit(main())
