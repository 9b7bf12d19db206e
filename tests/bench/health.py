"""What health checks cost the busiest CPU of a container: `python -m tests.bench.health [--rounds 6] [--seconds 10]`.

On an engine of its own, which needs root and two CPUs. A container spins on its first CPU, with or without a second
thread on its last. In turn it has no health check, one every 100 ms, and the same with the label `cpuset.exec: last`.
What the thread on its first CPU lost there is printed: the share of its time, and its longest gaps.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench.latency import HERE
from tests.bench.own_engine import own_engine
from tests.bench.strict import install_fronts
from tests.live.image import ensure_image
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess

_CHECK = ("CMD-SHELL", "head -c 2000000 /dev/zero | md5sum")
_INTERVAL_NS = 100_000_000
_SETTLE_SECONDS = 2.0
"""Until the container was looked at, and its first checks are over."""

KINDS = {
    "no health check": ({}, False),
    "health checks": ({}, True),
    "health checks, `cpuset.exec: last`": ({"cpuset.exec": "last"}, True),
}


class Bench:
    """An engine, and the workload."""

    def __init__(self, engine: PrivateEngine, scratch: Path, runtime: str) -> None:
        self.api, self.runtime = engine.api, runtime
        self.image = ensure_image(engine.api)
        self.workload = scratch / "spinning"
        command = ["gcc", "-O2", "-static", "-pthread", "-o", str(self.workload), str(HERE / "spinning.c")]
        subprocess.run(command, check=True)

    def seconds(self, name: str, kind: str, cpus: list[int], seconds: float) -> list[tuple[float, float, float]]:
        """Return what it lost in each second: the share, and the longest and the 99th gap in microseconds."""
        labels, is_checked = KINDS[kind]
        health = {"Healthcheck": {"Test": list(_CHECK), "Interval": _INTERVAL_NS}} if is_checked else {}
        wanted = {
            "Image": self.image,
            "Cmd": ["/workload", *map(str, cpus)],
            "Labels": labels,
            "HostConfig": {
                "NetworkMode": "host",
                "Binds": [f"{self.workload}:/workload:ro"],
                "Runtime": self.runtime,
            },
            **health,
        }
        id = str(self.api.ask("POST", "containers/create", wanted, name=name)["Id"])
        self.api.act(id, "start")
        time.sleep(_SETTLE_SECONDS + seconds)
        found = self.api.ask("GET", f"containers/{id}/logs", stdout="1")
        self.api.remove(id)
        text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
        told = re.findall(r"lost ([\d.]+) longest (\d+) p99 (\d+)", text)[int(_SETTLE_SECONDS) :]
        return [(float(share), float(longest), float(p99)) for share, longest, p99 in told]


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2 or shutil.which("gcc") is None:
        sys.exit("needs two CPUs, and gcc")
    with own_engine() as (engine, folder):
        sidecar = SidecarProcess(folder, engine.socket_path)
        try:
            runtime = install_fronts(engine, sidecar, folder)["usual compiled"]
            sidecar.start()
            bench = Bench(engine, folder, runtime)
            for where, threads in (("its last CPU idle", cpus[:1]), ("its last CPU busy", [cpus[0], cpus[-1]])):
                print(f"\n| {where} | lost there | longest gap, median of seconds (ms) | p99 of gaps (ms) | seconds |")
                print("| --- | --- | --- | --- | --- |", flush=True)
                lost: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in KINDS}
                for number in range(args.rounds):
                    for kind in KINDS:
                        lost[kind] += bench.seconds(f"health-{number}", kind, threads, args.seconds)
                for kind, told in lost.items():
                    share, longest, p99 = (statistics.median(each) for each in zip(*told, strict=True))
                    mean = statistics.fmean(each[0] for each in told)
                    gaps = f"{longest / 1e3:.2f} | {p99 / 1e3:.2f}"
                    print(f"| {kind} | {mean:.2%} (median {share:.2%}) | {gaps} | {len(told)} |", flush=True)
        finally:
            sidecar.kill()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
