"""The cost of the daemon when nothing happens: `python -m tests.bench.idle [--seconds 60] [--containers 10]`.

CPU time, wake-ups (voluntary context switches of all its threads), resident memory and threads over the time, and the
time from its start to ready. `--created` is how many more containers there are that never run. Use an engine of your
own; births of other engines' containers below the same parents wake the hand's threads, so each thread is shown too.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.bench.latency import IMAGE, engine_at

SETTLES_SECONDS = 15
"""After two inventories nothing is new any more."""


class Used(NamedTuple):
    """What a thread has used so far: seconds of CPU, by the scheduler's own account, and voluntary context switches."""

    name: str
    seconds: float
    switches: int


def used(pid: int) -> dict[int, Used]:
    """Return what each thread of a process has used so far, by its number."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = dict(text.split(":", 1) for text in (task / "status").read_text().splitlines())
        nanoseconds = int((task / "schedstat").read_text().split()[0])
        name, switches = status["Name"].strip(), int(status["voluntary_ctxt_switches"])
        found[int(task.name)] = Used(name, nanoseconds / 1e9, switches)
    return found


def main() -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default="/var/run/docker.sock")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--containers", type=int, default=10)
    parser.add_argument("--created", type=int, default=0)
    parser.add_argument("--hands", default="auto", help="a list of values of the key `hand`, in turn")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    api = engine_at(args.socket)
    ids = [api.create(f"bench-idle-{number}", IMAGE, "sleep", "3600") for number in range(args.containers)]
    rest = [api.create(f"bench-rest-{number}", IMAGE, "sleep", "3600") for number in range(args.created)]
    try:
        for id in ids:
            api.act(id, "start")
        for hand in args.hands.split(",") * args.rounds:
            with tempfile.TemporaryDirectory() as scratch:
                measure(Path(scratch), args.socket, args.seconds, hand)
    finally:
        for id in (*ids, *rest):
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


def measure(scratch: Path, socket: str, seconds: float, hand: str) -> None:
    """Start the daemon, wait, and print."""
    flags = ["--policy", "static", "--reserved", "0", "--engine", f"unix://{socket}", "--hand", hand]
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
    time.sleep(SETTLES_SECONDS)
    before = used(daemon.pid)
    time.sleep(seconds)
    after = used(daemon.pid)
    memory = Path(f"/proc/{daemon.pid}/status").read_text()
    rss = next(text.split()[1] for text in memory.splitlines() if text.startswith("VmRSS"))
    threads = next(text.split()[1] for text in memory.splitlines() if text.startswith("Threads"))
    daemon.send_signal(signal.SIGTERM)
    daemon.wait(10)
    print(f"hand {hand}; start to ready: {sorted(starts)[2]:.0f} ms (median of 5)")
    none = Used("", 0.0, 0)
    spent = [
        Used(later.name, later.seconds - sooner.seconds, later.switches - sooner.switches)
        for later, sooner in ((each, before.get(number, none)) for number, each in after.items())
    ]
    cpu, switches = sum(each.seconds for each in spent), sum(each.switches for each in spent)
    print(f"over {seconds:g} s: {cpu * 1e3:.0f} ms of CPU, {switches} wake-ups")
    for each in spent:
        print(f"    {each.name}: {each.seconds * 1e3:.1f} ms, {each.switches}")
    print(f"resident: {int(rss) / 1024:.1f} MiB; threads: {threads}")


if __name__ == "__main__":
    sys.exit(main())
