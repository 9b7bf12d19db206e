"""The cost of the daemon when nothing happens: `python -m tests.bench.idle [--seconds 60] [--containers 10]`.

CPU time, wake-ups (voluntary context switches of all its threads), resident memory and threads over the time, and the
time from its start to ready. Use an engine of your own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.latency import IMAGE, engine_at


def used(pid: int) -> tuple[float, int]:
    """Return CPU seconds and voluntary context switches so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for text in status.read_text().splitlines():
            if text.startswith("voluntary_ctxt_switches"):
                switches += int(text.split()[1])
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), switches


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default="/var/run/docker.sock")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--containers", type=int, default=10)
    args = parser.parse_args()
    api = engine_at(args.socket)
    ids = [api.create(f"bench-idle-{number}", IMAGE, "sleep", "3600") for number in range(args.containers)]
    try:
        for id in ids:
            api.act(id, "start")
        with tempfile.TemporaryDirectory() as scratch:
            measure(Path(scratch), args.socket, args.seconds)
    finally:
        for id in ids:
            api.ask("DELETE", f"containers/{id}", force="1")
    return 0


def start(scratch: Path, flags: list[str]) -> tuple[subprocess.Popen[bytes], float]:
    """Start the daemon; return it, and the milliseconds until it was ready."""
    began = time.perf_counter()
    daemon = subprocess.Popen([sys.executable, "-m", "sidecar", "run", *flags], stderr=subprocess.DEVNULL)
    status = scratch / "state" / "status.json"
    while not (status.exists() and json.loads(status.read_text()).get("is_ready")):
        time.sleep(0.001)
    return daemon, (time.perf_counter() - began) * 1e3


def measure(scratch: Path, socket: str, seconds: float) -> None:
    """Start the daemon, wait, and print."""
    flags = ["--policy", "static", "--reserved", "0", "--engine", f"unix://{socket}"]
    flags += ["--state-dir", str(scratch / "state"), "--projections", str(scratch / "projections")]
    starts = []
    for _ in range(4):
        daemon, milliseconds = start(scratch, flags)
        starts.append(milliseconds)
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(10)
        (scratch / "state" / "status.json").unlink()
    daemon, milliseconds = start(scratch, flags)
    starts.append(milliseconds)
    time.sleep(2)
    cpu, switches = used(daemon.pid)
    time.sleep(seconds)
    cpu_later, switches_later = used(daemon.pid)
    memory = Path(f"/proc/{daemon.pid}/status").read_text()
    rss = next(text.split()[1] for text in memory.splitlines() if text.startswith("VmRSS"))
    threads = next(text.split()[1] for text in memory.splitlines() if text.startswith("Threads"))
    daemon.send_signal(signal.SIGTERM)
    daemon.wait(10)
    print(f"start to ready: {sorted(starts)[2]:.0f} ms (median of 5)")
    print(f"over {seconds:g} s: {(cpu_later - cpu) * 1e3:.0f} ms of CPU, {switches_later - switches} wake-ups")
    print(f"resident: {int(rss) / 1024:.1f} MiB; threads: {threads}")


if __name__ == "__main__":
    sys.exit(main())
