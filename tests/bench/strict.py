"""The cost of the strict start, and whether it holds: `python -m tests.bench.strict [--rounds 200] [--load]`.

On an engine of its own, which needs root. Starts alternate between the bare runtime and fronts of both kinds, each as
the compiled program and in Python: the strict one, and the usual one before runc, by the standing order. Each is of a
container that was created and left alone first, so that only the start is measured. Then containers are created and
started at once, and each prints, as its first act, how many CPUs it may run on; `--load` keeps every CPU busy.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from sidecar.decide.container.start import STRICT_PROGRAM, STRICT_RUNTIME
from sidecar.host.install.fronts import Front, front_files
from sidecar.host.install.runtime_files import Installation, Places, carry_out, runtime_files
from tests.bench.latency import HERE, line, percentile
from tests.bench.own_engine import own_engine
from tests.live.image import ensure_image
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess
from tests.support.host.front_program import compiled_front

BARE = "the bare runtime"
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

    def alternate(self, rounds: int, fronts: Mapping[str, str]) -> None:
        """Measure the cost of a start through each of these fronts, by their names and runtimes, in turn."""
        kinds = {BARE: ("runc", ALONE)}
        for name, runtime in fronts.items():
            kinds[f"{name}, shared"] = (runtime, {})
            if "strict" in name:
                kinds[f"{name}, exclusive"] = (runtime, EXCLUSIVE)
        took: dict[str, list[float]] = {name: [] for name in kinds}
        # What was measured is printed also where it is ended early.
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            for number in range(rounds):
                for name, (runtime, labels) in kinds.items():
                    milliseconds, _ = self.start(f"cost-{number}", runtime, labels, 0.1)
                    took[name].append(milliseconds)
        for name, values in took.items():
            print(line(f"start, {name}", values))
        for name in took:
            if name != BARE:
                p50, p90, p99, p10 = (
                    percentile(took[name], share) - percentile(took[BARE], share) for share in (0.5, 0.9, 0.99, 0.1)
                )
                print(f"| added: {name} (p10: {p10:.2f}) | {p50:.2f} | {p90:.2f} | {p99:.2f} | |", flush=True)

    def race(self, rounds: int, strict: str) -> None:
        """Measure containers that are created and started at once."""
        for name, runtime in (("runc, by events", "runc"), ("cpuset", strict)):
            pinned = 0
            for number in range(rounds):
                _, printed = self.start(f"race-{number}", runtime, EXCLUSIVE, 0.0)
                pinned += bool(re.search(r"first 1 ", printed))
            print(f"| {name}: pinned before the first instruction | {pinned} of {rounds} | | | |", flush=True)


def install_fronts(engine: PrivateEngine, sidecar: SidecarProcess, folder: Path) -> dict[str, str]:
    """Put fronts of both kinds before runc, compiled if that can be done here, and tell the engine. Return the names of
    their runtimes.
    """
    runc = shutil.which("runc") or sys.exit("there is no runc")
    settings = json.loads((engine.folder / "daemon.json").read_text())
    runtimes = settings.setdefault("runtimes", {})
    found = {}
    for way, program in (("compiled", compiled_front(folder)), ("python", None)):
        if way == "compiled" and program is None:
            continue
        made = Installation(
            real=runc,
            python="/usr/bin/python3",
            socket=str(sidecar.state_dir / "api.sock"),
            projections=str(sidecar.projections),
            patience=10.0,
            program=program,
        )
        places = Places(str(folder / way))
        front = Front(engine="docker", name="runc", real=runc)
        carry_out("/", [*runtime_files(places, made), *front_files(places, made, front)])
        subprocess.run([made.python, "-I", "-S", "-m", "compileall", "-q", places.library], check=True)
        # The two names by which the daemon knows that a container chose to start strictly.
        strict = STRICT_RUNTIME if program else STRICT_PROGRAM
        for kind, name, path in (
            ("strict", strict, places.runtime),
            ("usual", f"usual-{way}", places.front("docker", "runc")),
        ):
            runtimes[name] = {"path": path}
            found[f"{kind} {way}"] = name
    (engine.folder / "daemon.json").write_text(json.dumps(settings))
    os.kill(int((engine.folder / "pid").read_text()), signal.SIGHUP)
    return found


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
    parser.add_argument("--race", type=int, default=200, metavar="ROUNDS")
    parser.add_argument("--load", action="store_true", help="keep every CPU busy")
    args = parser.parse_args()
    with own_engine() as (engine, folder):
        sidecar = SidecarProcess(folder, engine.socket_path)
        try:
            fronts = install_fronts(engine, sidecar, folder)
            sidecar.start()
            bench = Bench(engine, folder)
            load = "under load" if args.load else "idle otherwise"
            print(f"| milliseconds, {load} | median | p90 | p99 | n |\n| --- | --- | --- | --- | --- |", flush=True)
            with busy(is_wanted=args.load):
                if not args.load:
                    bench.alternate(args.rounds, fronts)
                bench.race(args.race, next(iter(fronts.values())))
        finally:
            sidecar.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
