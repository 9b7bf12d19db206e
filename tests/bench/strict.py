"""The cost of the strict start, and whether it holds: `python -m tests.bench.strict [--rounds 200] [--load]`.

On an engine of its own, which needs root. Starts alternate between the bare runtime and `cpuset`, each of a container
that was created and left alone first, so that only the start is measured. Then containers are created and started at
once, and each prints, as its first act, how many CPUs it may run on; `--load` keeps every CPU busy meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.latency import HERE, line, percentile
from tests.bench.own_engine import own_engine
from tests.live.image import ensure_image
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess
from tests.live.stricthost import RUNTIME, install

EXCLUSIVE = {"cpuset.exclusive": "1"}
ALONE = {"cpuset.manage": "off"}


class Bench:
    """An engine, a daemon, and the first instruction of a container."""

    def __init__(self, engine: PrivateEngine, scratch: Path) -> None:
        self.api = engine.api
        self.image = ensure_image(engine.api)
        self.probe = scratch / "first_instruction"
        source = HERE / "first_instruction.c"
        subprocess.run(["gcc", "-O2", "-static", "-o", str(self.probe), str(source)], check=True)

    def start(self, name: str, runtime: str, labels: dict[str, str], pause: float) -> tuple[float, str]:
        """Create, wait, start; return how long the start took, in milliseconds, and what the container printed
        first.
        """
        bind = f"{self.probe}:/probe:ro"
        id = self.api.create(name, self.image, "/probe", labels=labels, Binds=[bind], NanoCpus=10**9, Runtime=runtime)
        time.sleep(pause)
        began = time.perf_counter()
        self.api.act(id, "start")
        took = (time.perf_counter() - began) * 1e3
        printed = ""
        while "first" not in printed:
            found = self.api.ask("GET", f"containers/{id}/logs", stdout="1")
            printed = found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)
        self.api.remove(id)
        return took, printed

    def alternate(self, rounds: int) -> None:
        """Measure the cost of a start."""
        took: dict[str, list[float]] = {"the bare runtime": [], "cpuset, exclusive": [], "cpuset, shared": []}
        kinds = {
            "the bare runtime": ("runc", ALONE),
            "cpuset, exclusive": (RUNTIME, EXCLUSIVE),
            "cpuset, shared": (RUNTIME, {}),
        }
        for number in range(rounds):
            for name, (runtime, labels) in kinds.items():
                milliseconds, _ = self.start(f"cost-{number}", runtime, labels, 0.1)
                took[name].append(milliseconds)
        for name, values in took.items():
            print(line(f"start, {name}", values))
        bare = took["the bare runtime"]
        for name in ("cpuset, exclusive", "cpuset, shared"):
            more = [percentile(took[name], share) - percentile(bare, share) for share in (0.5, 0.9, 0.99, 0.1)]
            print(
                f"| added: {name} (p10: {more[3]:.2f}) | {more[0]:.2f} | {more[1]:.2f} | {more[2]:.2f} | |", flush=True
            )

    def race(self, rounds: int) -> None:
        """Measure containers that are created and started at once."""
        for name, runtime in (("runc, by events", "runc"), ("cpuset", RUNTIME)):
            pinned = 0
            for number in range(rounds):
                _, printed = self.start(f"race-{number}", runtime, EXCLUSIVE, 0.0)
                pinned += bool(re.search(r"first 1 ", printed))
            print(f"| {name}: pinned before the first instruction | {pinned} of {rounds} | | | |", flush=True)


@contextlib.contextmanager
def busy(*, is_wanted: bool) -> Iterator[None]:
    """Run two busy processes for every CPU."""
    made = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(2 * (os.cpu_count() or 1))]
    made = made if is_wanted else []
    for each in made:
        each.start()
    try:
        yield
    finally:
        for each in made:
            each.terminate()
            each.join()


def _spin() -> None:
    while True:
        pass


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--load", action="store_true", help="keep every CPU busy")
    args = parser.parse_args()
    with own_engine() as (engine, folder):
        sidecar = SidecarProcess(folder, engine.socket_path)
        try:
            done = install(engine, folder)
            if done.returncode:
                sys.exit(done.stderr)
            sidecar.start()
            bench = Bench(engine, folder)
            load = "under load" if args.load else "idle otherwise"
            print(f"| milliseconds, {load} | median | p90 | p99 | n |\n| --- | --- | --- | --- | --- |", flush=True)
            with busy(is_wanted=args.load):
                if not args.load:
                    bench.alternate(args.rounds)
                bench.race(args.rounds)
        finally:
            sidecar.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
