"""What health checks cost the busiest CPU of a container: `python -m tests.bench.health [--rounds 6] [--seconds 10]`.

On an engine of its own, which needs root and two CPUs. A container spins on its first CPU, with or without a second
thread on its last. In turn it has no health check, one every 100 ms, and the same with the label `cpuset.exec: last`.
Printed is how much of its first CPU processes had that joined it, by the kernel's own count, which no other load of the
machine changes; and how much of that CPU's time its thread lost, to whatever it was.
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
from typing import NamedTuple

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

    def measured(self, name: str, kind: str, cpus: list[int], seconds: float) -> Measured:
        """Run the workload for so long, and return what became of its first CPU."""
        labels, is_checked = KINDS[kind]
        health = {"Healthcheck": {"Test": list(_CHECK), "Interval": _INTERVAL_NS}} if is_checked else {}
        host = {"NetworkMode": "host", "Binds": [f"{self.workload}:/workload:ro"], "Runtime": self.runtime}
        command = ["/workload", *map(str, cpus)]
        wanted = {"Image": self.image, "Cmd": command, "Labels": labels, "HostConfig": host, **health}
        id = str(self.api.ask("POST", "containers/create", wanted, name=name)["Id"])
        self.api.act(id, "start")
        time.sleep(_SETTLE_SECONDS)
        pid = int(self.api.inspect(id)["State"]["Pid"])
        before, began = joined_on(pid, cpus), time.monotonic()
        time.sleep(seconds)
        after, took = joined_on(pid, cpus), time.monotonic() - began
        first, everywhere = (now - then for now, then in zip(after, before, strict=True))
        found = self.api.ask("GET", f"containers/{id}/logs", stdout="1")
        self.api.remove(id)
        text = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
        lost = [float(share) for share in re.findall(r"lost ([\d.]+)", text)[int(_SETTLE_SECONDS) :]]
        return Measured(first / 1e6 / took, first / everywhere if everywhere > took * 1e5 else 0.0, lost)


class Measured(NamedTuple):
    """Milliseconds of each second that processes which had joined had on the first CPU, and the share of each second
    that the busiest thread lost there, to whatever it was.
    """

    joined: float
    share: float
    """Of all that these processes had."""
    lost: list[float]


def joined_on(pid: int, cpus: list[int]) -> tuple[int, int]:
    """Return the nanoseconds that all of a container but the workload's threads had on the first of these CPUs, and on
    all CPUs. cgroup v1 counts them.
    """
    lines = (line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines())
    group = next(path for _, names, path in lines if "cpuacct" in names.split(","))
    used = Path(f"/sys/fs/cgroup/cpuacct{group}/cpuacct.usage_percpu").read_text().split()
    own = {task.name: int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()}
    return int(used[cpus[0]]) - own[str(pid)], sum(map(int, used)) - sum(own.values())


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2 or shutil.which("gcc") is None or not Path("/sys/fs/cgroup/cpuacct").is_dir():
        sys.exit("needs two CPUs, gcc, and cgroup v1, which counts a container's time on each CPU")
    with own_engine() as (engine, folder):
        sidecar = SidecarProcess(folder, engine.socket_path)
        try:
            runtime = install_fronts(engine, sidecar, folder)["usual compiled"]
            sidecar.start()
            bench = Bench(engine, folder, runtime)
            for where, threads in (("its last CPU idle", cpus[:1]), ("its last CPU busy", [cpus[0], cpus[-1]])):
                head = "checks had there, ms of each second | of all that they had | lost there to all | runs"
                print(f"\n| {where} | {head} |")
                print("| --- | --- | --- | --- | --- |", flush=True)
                found: dict[str, list[Measured]] = {kind: [] for kind in KINDS}
                for number in range(args.rounds):
                    for kind in KINDS:
                        found[kind].append(bench.measured(f"health-{number}", kind, threads, args.seconds))
                for kind, runs in found.items():
                    had = sorted(each.joined for each in runs)
                    lost = [share for each in runs for share in each.lost] or [0.0]
                    share = statistics.median(each.share for each in runs)
                    told = f"{statistics.median(had):.2f} ({had[0]:.2f} to {had[-1]:.2f}) | {share:.1%}"
                    print(f"| {kind} | {told} | {statistics.median(lost):.2%} | {len(runs)} |", flush=True)
        finally:
            sidecar.kill()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
