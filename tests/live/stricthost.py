"""The strict start on a private engine: the runtime installed by its own command, below the engine's folder."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from state.cpuset import CPUSet
from tests.live.engineapi import EngineApi
from tests.live.kernelview import online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import ROOT, SidecarProcess
from tests.live.waiting import PATIENCE, eventually

RUNTIME = "cpuset"

SHOW = (
    "grep Cpus_allowed_list /proc/self/status; cat /run/cpuset-sidecar/status.json /run/cpuset-sidecar/cpuset; "
    "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us || cat /sys/fs/cgroup/cpu.max"
)
STAY = f"{SHOW}; sleep 1000"
"""What a container prints first, and that it stays."""

PATIENCE_SECONDS = min(5.0 * PATIENCE, 30.0)
"""How long a start waits for a sidecar that is not there: longer than that needs to start on this machine, and at most
what `--patience` takes.
"""

_PERIOD = 100_000
"""Microseconds. The period of a CPU limit that an engine sets in CPUs; cgroup v1 shows the quota alone."""


def install(engine: PrivateEngine, folder: Path, *words: str, state: str = "state") -> subprocess.CompletedProcess[str]:
    """Call `install-runtime` for this engine and a sidecar below this folder."""
    command = [sys.executable, "-m", "sidecar", *install_words(engine, folder, *words, state=state)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def install_words(engine: PrivateEngine, folder: Path, *words: str, state: str = "state") -> list[str]:
    """Return the arguments of this program with which that is called."""
    return [
        *("install-runtime", "--for", "docker"),
        *("--prefix", str(engine.folder / "strict"), "--daemon-json", str(engine.folder / "daemon.json")),
        *("--docker-pid", str(engine.folder / "pid"), "--engine", f"unix://{engine.socket_path}"),
        *("--state-dir", str(folder / state), "--projections", str(folder / "projections"), *words),
    ]


@contextmanager
def everything_asks(engine: PrivateEngine, folder: Path, *words: str) -> Iterator[None]:
    """Have every container of this engine start through the front, for the length of the block. Those that were
    created meanwhile must be gone by its end.
    """
    _done(engine, folder, "--default", *words)
    try:
        yield
    finally:
        _done(engine, folder, "--remove")


def _done(engine: PrivateEngine, folder: Path, *words: str) -> None:
    done = install(engine, folder, *words)
    assert done.returncode == 0, done.stderr


class Docker:
    """Docker's own client, since its output for people is what matters. Its containers are removed in the end."""

    def __init__(self, api: EngineApi, image: str, prefix: str) -> None:
        self.api = api
        self._image = image
        self._prefix = prefix
        self.made: list[str] = []

    def run(
        self, name: str, *words: str, runtime: str = RUNTIME, exclusive: int = 0, options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Call `docker run`, with the options; without a runtime the engine's default one counts."""
        labels = ("--label", f"cpuset.exclusive={exclusive}") if exclusive else ()
        return self.call("run", *self._usual(name, runtime), *labels, *options, self._image, *words)

    def begin(self, name: str, *words: str, exclusive: int = 0) -> subprocess.Popen[str]:
        """Start the same, without waiting."""
        labels = ("--label", f"cpuset.exclusive={exclusive}") if exclusive else ()
        command = ["docker", "run", *self._usual(name, RUNTIME), "-d", *labels, self._image, *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self._environment())

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Call any other command."""
        return subprocess.run(
            ["docker", *words], capture_output=True, text=True, timeout=120, check=False, env=self._environment()
        )

    def inspect(self, name: str) -> Any:
        """Return the engine's JSON about one of our containers."""
        return self.api.inspect(f"{self._prefix}-{name}")

    def full(self, name: str) -> str:
        """Return the name of our container on the engine."""
        return f"{self._prefix}-{name}"

    def logs(self, name: str) -> list[str]:
        """Return what it printed."""
        return self.call("logs", self.full(name)).stdout.splitlines()

    def remove_all(self) -> None:
        """Remove all that was created."""
        if self.made:
            self.call("rm", "--force", "--volumes", *self.made)

    def _usual(self, name: str, runtime: str) -> tuple[str, ...]:
        self.made.append(self.full(name))
        chosen = ("--runtime", runtime) if runtime else ()
        return ("--network", "host", "--name", self.full(name), *chosen, "--stop-signal", "KILL")

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "DOCKER_HOST": f"unix://{self.api.socket_path}"}


@pytest.fixture
def docker(
    private_engine: PrivateEngine | str, ground: Ground, sidecar: SidecarProcess, tmp_path: Path
) -> Iterator[Docker]:
    """Yield Docker's client on an engine with the strict runtime, and a sidecar that is not started."""
    if isinstance(private_engine, str) or private_engine.program != "dockerd":
        pytest.skip("the strict start is set up on a Docker engine of the tests' own only")
    if subprocess.run(["docker", "version"], capture_output=True, check=False).returncode not in (0, 1):
        pytest.skip("Docker's client is not here")
    yield from installed(private_engine, ground, tmp_path)


def installed(engine: PrivateEngine, ground: Ground, folder: Path, *words: str) -> Iterator[Docker]:
    """Yield Docker's client on this engine, on which the runtime was installed; remove all of it in the end."""
    done = install(engine, folder, "--patience", f"{PATIENCE_SECONDS:g}", *words)
    assert done.returncode == 0, done.stderr
    made = Docker(ground.api, ground.image, f"strict-{uuid.uuid4().hex[:6]}")
    yield made
    made.remove_all()
    done = install(engine, folder, "--remove")
    assert done.returncode == 0, done.stderr


def shell(docker: Docker, name: str, script: str, **more: object) -> subprocess.CompletedProcess[str]:
    return docker.run(name, "sh", "-c", script, **more)  # type: ignore[arg-type]


def first_cpus(docker: Docker, name: str, starts: int = 1) -> list[CPUSet]:
    """Return the CPUs on which each start of a container began, as soon as so many starts have printed them: an engine
    calls a container started before its program has printed anything.
    """

    def printed() -> list[CPUSet] | None:
        found = [CPUSet.parse(line.split()[1]) for line in docker.logs(name) if line.startswith("Cpus")]
        return found if len(found) >= starts else None

    return eventually(printed, f"{name} printed its CPUs at {starts} starts")


def is_unthrottled(read: str) -> bool:
    """Return whether the kernel's CPU limit, as `SHOW` prints it, can never stop a container: none, or all of the
    machine. It starts with none, and has the other once the sidecar has lifted its limit in the engine's records.
    """
    quota, period = [*read.split(), str(_PERIOD)][:2]
    return quota in ("-1", "max") or int(quota) >= len(online()) * int(period)
