"""The cost of `top`: `python -m tests.bench.top [--runs 7]`.

From the start of the process to its first whole screen, the processor time and memory until then, processor time and
bytes written at rest, and the same for `--once`; on hosts of a simulated engine with few and with many containers.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from sidecar.status.describe import status_of
from sidecar.status.status_file import write_status
from state.topology import uniform
from tests.cli.worlds import container, world

REST_SECONDS: Final = 10.0

HOSTS: Final = (("24 CPUs, 10 containers", 6, 10), ("1,024 CPUs, 400 containers", 256, 400))


class Screenful(NamedTuple):
    """What one run took."""

    wall_ms: float
    cpu_ms: float
    memory_mib: float
    rest_percent: float
    rest_bytes: float


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")
    for name, cores, many in HOSTS:
        with tempfile.TemporaryDirectory() as state_dir:
            write(Path(state_dir), cores, many)
            once = [cpu_ms_of([sys.executable, "-m", "sidecar", "top", "--once", "--state-dir", state_dir])
                    for _ in range(args.runs)]  # fmt: skip
            runs = [measured(state_dir, REST_SECONDS if number == 0 else 0.0) for number in range(args.runs)]
        print(f"{name}:")
        print(f"  --once: {min(once):.0f} ms of processor time (median {statistics.median(once):.0f})")
        wall, cpu = [run.wall_ms for run in runs], [run.cpu_ms for run in runs]
        print(f"  first screen: {min(wall):.0f} ms (median {statistics.median(wall):.0f})")
        print(f"  processor time until then: {min(cpu):.0f} ms (median {statistics.median(cpu):.0f})")
        print(f"  resident memory: {max(run.memory_mib for run in runs):.1f} MiB")
        print(f"  at rest: {runs[0].rest_percent:.2f} % of a CPU, {runs[0].rest_bytes:.0f} bytes a second")


def write(state_dir: Path, cores: int, many: int) -> None:
    """Write the status of a host with so many containers, a tenth of them with CPUs of their own."""
    views = [container(f"svc-{n}", exclusive=2) if n % 10 == 0 else container(f"svc-{n}") for n in range(many)]
    machine = uniform(packages=2, cores=cores, threads=2)
    write_status(state_dir, status_of(world(machine, *views), updated_at=datetime.now(UTC).isoformat()))


def cpu_ms_of(command: list[str]) -> float:
    """Return the processor time of a command, with its children."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (used.ru_utime + used.ru_stime) * 1e3


def measured(state_dir: str, rest: float) -> Screenful:
    """Start it on a terminal of 132x43, and let it rest so long."""
    began = time.perf_counter()
    with on_a_terminal([sys.executable, "-m", "sidecar", "top", "--state-dir", state_dir]) as (pid, screen):
        read_until(screen, b"q end")
        wall = (time.perf_counter() - began) * 1e3
        cpu, written = cpu_seconds(pid), 0
        until = time.perf_counter() + rest
        while (left := until - time.perf_counter()) > 0:
            if select.select([screen], [], [], left)[0]:
                written += len(os.read(screen, 65536))
        used = cpu_seconds(pid) - cpu
        return Screenful(
            wall, cpu * 1e3, memory_mib(pid), 100 * used / rest if rest else 0.0, written / rest if rest else 0.0
        )


@contextmanager
def on_a_terminal(command: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the process and the other side of its terminal."""
    side, inner = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "132", "LINES": "43"}
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environ)
    os.close(inner)
    try:
        yield process.pid, side
    finally:
        process.send_signal(signal.SIGTERM)
        os.close(side)
        process.wait()


def read_until(screen: int, wanted: bytes) -> None:
    """Read what it draws, up to this."""
    drawn = b""
    while wanted not in drawn:
        drawn += os.read(screen, 65536)


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far, in steps of the kernel's tick."""
    ran = Path(f"/proc/{pid}/schedstat").read_text().split()[0]
    return int(ran) / 1e9


def memory_mib(pid: int) -> float:
    """Return its resident memory, and its guard's own."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    rollups = [Path(f"/proc/{each}/smaps_rollup").read_text() for each in pids]
    return sum(int(line.split()[1]) for text in rollups for line in text.splitlines() if line.startswith("Pss:")) / 1024


if __name__ == "__main__":
    main()
