"""What two CPUs allow, on a real engine: a small server alone, next to a batch job, and with an exclusive CPU.

On a Docker Engine of its own (as root). With two CPUs and one left for the others, one can be exclusive, so no elastic
container can grow: this compares `none` and `static`, without `dynamic`. The containers' cgroup has the maximum of
shares, so that other programs count little; and the runs are short, for their sake.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.benefit.costs import ABOVE_ALL, CONTROLLER, HERE
from tests.bench.benefit.lockstep import percentile
from tests.bench.own_engine import own_engine
from tests.live.image import ensure_image
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess

ROUNDS: Final = 4
SECONDS: Final = 6.0
"""Of one run: others on this machine must not wait longer."""

RATE: Final = 80.0
"""Requests a second: 0.4 CPUs of work."""

PARENT: Final = "benefit-engine"

REST: Final = 1.0
"""Seconds between two runs."""


class Setting(NamedTuple):
    """One way to place the server: with a batch job beside it or not, with how many shares, exclusive or not."""

    name: str
    with_batch: bool = True
    shares: int = 1024
    labels: Mapping[str, str] = {}


SETTINGS: Final = (
    Setting("alone", with_batch=False),
    Setting("none"),
    Setting("none, 10 x shares", shares=10240),
    Setting("static", labels={"cpuset.exclusive": "1"}),
)


class Bench:
    """A private engine, and a daemon next to it while a container is exclusive."""

    def __init__(self, engine: PrivateEngine, scratch: Path) -> None:
        self.api = engine.api
        self.image = ensure_image(engine.api)
        self._scratch = scratch
        self._program = scratch / "two_cpus"
        compiling = ["gcc", "-O2", "-static", "-pthread", "-Wall", "-Wextra", "-Werror", "-o", str(self._program)]
        subprocess.run([*compiling, str(HERE / "two_cpus.c"), "-lm"], check=True)
        self._socket = engine.socket_path

    def play(self, setting: Setting, number: int) -> tuple[list[float], float]:
        """Play one run; return the milliseconds of each request, and the batch job's million hops per second."""
        with ExitStack() as stack:
            if setting.labels:
                stack.enter_context(self._sidecar(number))
            batch = None
            if setting.with_batch:
                batch = self._created(f"batch-{number}", "batch", str(SECONDS + 1))
            server = self._created(
                f"server-{number}", "serve", str(SECONDS), str(RATE), labels=setting.labels, CpuShares=setting.shares
            )
            containers = [each for each in (batch, server) if each]
            for each in containers:
                self.api.act(each, "start")
            printed = {each: self._ended(each) for each in containers}
            for each in containers:
                self.api.remove(each)
        return printed[server], sum(printed[batch]) if batch else 0.0

    @contextmanager
    def _sidecar(self, number: int) -> Iterator[None]:
        process = SidecarProcess(self._scratch / f"sidecar-{number}", self._socket)
        process.start()
        try:
            yield
        finally:
            process.terminate()

    def _created(self, name: str, *words: str, labels: Mapping[str, str] | None = None, **host: Any) -> str:
        bind = f"{self._program}:/two_cpus:ro"
        return self.api.create(
            name, self.image, "/two_cpus", *words, labels=labels, Binds=[bind], CgroupParent=f"/{PARENT}", **host
        )

    def _ended(self, id: str) -> list[float]:
        status = self.api.ask("POST", f"containers/{id}/wait")["StatusCode"]
        if status != 0:
            raise RuntimeError(f"a program ended with {status}")
        raw = self.api.ask("GET", f"containers/{id}/logs", stdout="1")
        return [float(word) for word in unframed(raw).split()]


def unframed(raw: bytes) -> str:
    """Return what a container printed: its log without the engine's eight-byte heads."""
    found = b""
    while raw:
        size = int.from_bytes(raw[4:8], "big")
        found, raw = found + raw[8 : 8 + size], raw[8 + size :]
    return found.decode()


@contextmanager
def _parent() -> Iterator[None]:
    group = CONTROLLER / PARENT
    group.mkdir(exist_ok=True)
    (group / "cpu.shares").write_text(str(ABOVE_ALL))
    try:
        yield
    finally:
        for each in Path("/sys/fs/cgroup").glob(f"*/{PARENT}"):
            with suppress(OSError):
                each.rmdir()


def measure() -> Iterator[str]:
    """Yield the lines of the table; all rounds of a setting together, the settings taking turns."""
    count = len(os.sched_getaffinity(0))
    if count != 2:
        yield f"This machine has {count} CPUs: these figures are about two."
    times: dict[str, list[float]] = {setting.name: [] for setting in SETTINGS}
    done: dict[str, list[float]] = {setting.name: [] for setting in SETTINGS}
    with _parent(), own_engine() as (engine, folder):
        bench = Bench(engine, folder)
        for number in range(ROUNDS * len(SETTINGS)):
            setting = SETTINGS[number % len(SETTINGS)]
            took, work = bench.play(setting, number)
            times[setting.name] += took
            done[setting.name].append(work)
            time.sleep(REST)
    yield "| two real CPUs | p50, ms | p90, ms | p99, ms | batch job, million hops a second | requests |"
    yield "| --- |" + " --- |" * 5
    for name, each in times.items():
        each.sort()
        cells = [f"{percentile(each, share):.1f}" for share in (0.5, 0.9, 0.99)]
        cells += [f"{sum(done[name]) / ROUNDS:.0f}", str(len(each))]
        yield f"| {name} | " + " | ".join(cells) + " |"
