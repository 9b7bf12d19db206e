"""How fast a container is pinned, beside the bare update call: `python -m tests.bench.latency [--rounds 100]`.

On the host's engine (use one of your own: the sidecar confines every container of its engine). Three launchers: `docker
run -d`, a client that creates and starts at once, and one that creates only (as compose does, which starts when all are
created). The bare call is the same update of a created container, by a blocking client on a warm machine, in the same
run, between the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.live.engineapi import EngineApi
from tests.live.image import NAME, TAG, ensure_image

IMAGE = f"{NAME}:{TAG}"
HERE = Path(__file__).parent


def percentile(values: list[float], share: float) -> float:
    """Return the value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def line(name: str, values: list[float]) -> str:
    """Return a row of the table, in milliseconds."""
    if not values:
        return f"| {name} | - | - | - | 0 |"
    low, high = percentile(values, 0.9), percentile(values, 0.99)
    return f"| {name} | {statistics.median(values):.2f} | {low:.2f} | {high:.2f} | {len(values)} |"


class Bench:
    """One engine, one daemon with a stopwatch, and what was measured."""

    def __init__(self, socket: str, scratch: Path) -> None:
        self.api = engine_at(socket)
        self.socket = socket
        self.scratch = scratch
        self.out = scratch / "updates"
        self.bare: list[float] = []
        self.probe = scratch / "first_instruction"
        source = HERE / "first_instruction.c"
        subprocess.run(["gcc", "-O2", "-static", "-o", str(self.probe), str(source)], check=True)
        self.daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start to measure the sidecar."""
        command = [sys.executable, "-m", "tests.bench.timed", f"unix://{self.socket}"]
        command += [str(self.scratch / "state"), str(self.scratch / "projections"), str(self.out)]
        self.daemon = subprocess.Popen(command)
        self._wait_until_ready()

    def race(self, rounds: int) -> None:
        """Measure how many starts a blind racer wins, and how late it is otherwise: the most that events allow."""
        racer = subprocess.Popen([sys.executable, "-m", "tests.bench.racer", self.socket], stdout=subprocess.PIPE)
        assert racer.stdout is not None
        racer.stdout.readline()
        try:
            for launcher in ("run", "client"):
                printed = [self.run_once(launcher, number)[1] for number in range(rounds)]
                show_starts(f"{launcher}, the blind racer", printed)
        finally:
            racer.kill()
            racer.wait()

    def _wait_until_ready(self) -> None:
        status = self.scratch / "state" / "status.json"
        for _ in range(200):
            if status.exists() and json.loads(status.read_text()).get("is_ready"):
                return
            time.sleep(0.05)
        raise SystemExit("the daemon did not become ready")

    def stop(self) -> None:
        """End the daemon."""
        if self.daemon is None:
            return
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait(10)

    def measure_bare(self, name: str) -> None:
        """Measure one bare update of a created container that the sidecar leaves alone."""
        id = self.api.create(name, IMAGE, "sleep", "1", labels={"cpuset.manage": "off"})
        began = time.perf_counter()
        self.api.update(id, CpusetCpus="1", NanoCpus=2 * 10**9)
        self.bare.append((time.perf_counter() - began) * 1e3)
        self.api.ask("DELETE", f"containers/{id}", force="1")

    def run_once(self, launcher: str, number: int) -> tuple[str, str]:
        """Start the exclusive probe; return its id, and its output."""
        name = f"bench-{launcher}-{number}"
        bind = f"{self.probe}:/probe:ro"
        if launcher == "run":
            command = ["docker", "run", "-d", "--network", "none", "--name", name, "--label", "cpuset.exclusive=1"]
            command += ["--cpus", "1", "-v", bind, IMAGE, "/probe"]
            environment = {**os.environ, "DOCKER_HOST": f"unix://{self.socket}"}
            id = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()
        else:
            labels = {"cpuset.exclusive": "1"}
            id = self.api.create(name, IMAGE, "/probe", labels=labels, Binds=[bind], NanoCpus=10**9)
            if launcher == "client":
                self.api.act(id, "start")
        time.sleep(0.25)
        printed = self.api.ask("GET", f"containers/{id}/logs", stdout="1")
        self.api.ask("DELETE", f"containers/{id}", force="1")
        time.sleep(0.05)
        text = printed.decode("utf-8", "replace") if isinstance(printed, bytes) else str(printed)
        return id, text


def report(bench: Bench, launcher: str, printed: dict[str, str]) -> None:
    """Print the rows of one launcher."""
    rows = [json.loads(text) for text in bench.out.read_text().splitlines()]
    firsts = [row for row in rows if row["id"] in printed and row["stamped"]]
    sent = [(row["sent"] - row["stamped"]) / 1e6 for row in firsts]
    received = [(row["received"] - row["stamped"]) / 1e6 for row in firsts]
    confirmed = [(row["answered"] - row["stamped"]) / 1e6 for row in firsts]
    print(line(f"{launcher}: event stamped to received", received))
    print(line(f"{launcher}: event stamped to update sent", sent))
    print(line(f"{launcher}: event stamped to confirmed", confirmed))
    quick = [value for value in confirmed if value < 50]
    print(line(f"{launcher}: the same, where the update came before the start", quick))
    if launcher != "create":
        show_starts(launcher, list(printed.values()))


def engine_at(socket: str) -> EngineApi:
    """Return the engine, with the image that the benchmarks run. Ends the program if it is unavailable."""
    api = EngineApi(socket)
    # A start as most starts are, with a network namespace of its own.
    api.network = "none"
    try:
        ensure_image(api)
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))
    except OSError as error:
        sys.exit(f"no engine answers at {socket}: {error}")
    return api


def show_starts(name: str, printed: list[str]) -> None:
    """Print how often the first instruction was pinned, and how late it was otherwise."""
    in_time, late = 0, []
    for text in printed:
        if re.search(r"first 1 ", text):
            in_time += 1
        elif changed := re.search(r"changed \d+ (\d+)", text):
            late.append(float(changed[1]) / 1e3)
    print(line(f"{name}: exposed time where late", late))
    print(f"| {name}: pinned before the first instruction | {in_time} of {len(printed)} | | | |")


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", default="/var/run/docker.sock")
    parser.add_argument("--rounds", type=int, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(args.socket, Path(scratch))
        try:
            print("| milliseconds | median | p90 | p99 | n |\n| --- | --- | --- | --- | --- |")
            bench.race(args.rounds)
            bench.start()
            printed: dict[str, dict[str, str]] = {"run": {}, "client": {}, "create": {}}
            for number in range(args.rounds):
                for launcher, found in printed.items():
                    id, text = bench.run_once(launcher, number)
                    found[id] = text
                bench.measure_bare(f"bench-bare-{number}")
            print(line("the bare update call, created container", bench.bare))
            for launcher, found in printed.items():
                report(bench, launcher, found)
        finally:
            bench.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
