"""What the daemon costs by being there: `python -m tests.bench.footprint [--times 10] [--settle 3]`.

The whole daemon, with an engine that has no containers, at a socket of this run: no engine is needed, and nothing of
this machine is touched. In turn with it: an interpreter that does nothing, one that imports trio, and one that imports
aiodocker as well, which the daemon cannot do without; without garbage collection, as the daemon does. Modules are
compiled before, as where the package is installed.

Until it is ready, by what it writes: the clock, and its processor time, user and system. Once it has settled, and has
its API: resident memory, and its share of that with what others have as well (PSS).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from tests.support.daemon.quiet_engine import RUN, flags, quiet_engine, started, wait_until_ready
from tests.support.daemon.rawdaemon import RawDaemon

READY_MS: Final = 250.0
RESIDENT_MIB: Final = 42.0
"""What is aimed at."""

_BARE: Final = {
    "python": "pass",
    "python, trio": "import gc; gc.disable(); import trio",
    "python, trio, aiodocker": "import gc; gc.disable(); import trio, aiodocker",
}

_WAITING: Final = "; import sys; sys.stdout.write('.'); sys.stdout.flush(); sys.stdin.read()"


class Cost(NamedTuple):
    """Of one process: until it was ready in milliseconds, and settled in MiB."""

    clock_ms: float
    busy_ms: float
    resident: float
    share: float


def cost(pid: int, clock: float, busy: float) -> Cost:
    """Return what a process costs that is there."""
    told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    resident, share = (int(told[name].split()[0]) / 1024 for name in ("Rss", "Pss"))
    return Cost(clock * 1e3, busy * 1e3, resident, share)


def busy_seconds(pid: int) -> float:
    """Return the processor time of a process so far. More exact than the ticks of its `stat`."""
    nanoseconds = [int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat")]
    return sum(nanoseconds) / 1e9


def of_daemon(folder: Path, engine: RawDaemon, settle: float, more: Sequence[str] = ()) -> Cost:
    """Start the daemon, wait until it is ready and has settled, and end it."""
    log = folder / "log"
    (folder / "state" / "status.json").unlink(missing_ok=True)
    began = time.perf_counter()
    daemon = started(flags(folder, engine, *more), log, program=RUN)
    try:
        wait_until_ready(daemon, folder, log)
        clock, busy = time.perf_counter() - began, busy_seconds(daemon.pid)
        time.sleep(settle)
        return cost(daemon.pid, clock, busy)
    finally:
        daemon.terminate()
        daemon.wait(30)


def of_program(code: str, kept: Path) -> Cost:
    """Start an interpreter with this program, and end it."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", code + _WAITING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environ, "PYTHONPYCACHEPREFIX": str(kept)},
    ) as program:
        assert program.stdout
        program.stdout.read(1)
        return cost(program.pid, time.perf_counter() - began, busy_seconds(program.pid))


def row(name: str, found: Sequence[Cost], bare: float) -> str:
    """Return a row of the table: medians, the least processor time, and how much more than the bare interpreter's."""
    clock, busy, resident, share = (median(each) for each in zip(*found, strict=True))
    least = min(each.busy_ms for each in found)
    return f"| {name} | {clock:.0f} | {busy:.0f} | {least:.0f} | {busy / bare:.1f} | {resident:.1f} | {share:.1f} |"


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--settle", type=float, default=3, help="seconds until memory is read")
    args = parser.parse_args()
    found: dict[str, list[Cost]] = {name: [] for name in (*_BARE, "daemon")}
    with tempfile.TemporaryDirectory(prefix="cpuset-footprint-") as name, quiet_engine(Path(name)) as engine:
        folder = Path(name)
        for number in range(args.times + 1):
            turn = {each: of_program(code, folder / "compiled") for each, code in _BARE.items()}
            turn["daemon"] = of_daemon(folder, engine, args.settle)
            if number:  # The first compiles.
                for each, told in turn.items():
                    found[each].append(told)
    bare = median(each.busy_ms for each in found["python"])
    print("| | until ready, ms | of it busy, ms | least | times the bare one | resident, MiB | share, MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, costs in found.items():
        print(row(name, costs, bare))
    ready, resident = (median(getattr(each, part) for each in found["daemon"]) for part in ("clock_ms", "resident"))
    for what, value, goal in (("ready", ready, READY_MS), ("resident", resident, RESIDENT_MIB)):
        print(f"{what}: {'kept' if value <= goal else 'MISSED'}, {value:.0f} of {goal:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
