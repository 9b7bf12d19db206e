"""What a busy host runs beside its containers, by systemd: services, timers, sessions, bursts, and a build."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.live.containers import Containers
from tests.live.privateengine import PrivateEngine

SERVICES: Final = 40
TIMERS: Final = 3
SESSIONS: Final = 3
BURST: Final = 10

_PREFIX: Final = "cpuset-lodger"
_PROCESSES: Final = "while :; do sleep 1; done"


@contextmanager
def lodgers() -> Iterator[None]:
    """Run services that start a process each second, timers that fire each second, and sessions of users."""
    names = [f"{_PREFIX}-{number}.service" for number in range(SERVICES)]
    timers = [f"{_PREFIX}-timer-{number}" for number in range(TIMERS)]
    sessions = []
    try:
        for name in names:
            _run("--no-block", f"--unit={name}", "sh", "-c", _PROCESSES)
        for name in timers:
            when = ("--on-active=1", "--on-unit-active=1", "--timer-property=AccuracySec=100ms")
            _run(f"--unit={name}", *when, "sh", "-c", "sleep 0.3")
        for number in range(SESSIONS):
            # A login makes a scope like this one.
            where = (f"--unit={_PREFIX}-session-{number}", f"--slice=user-{4200 + number}.slice")
            words = ("systemd-run", "--quiet", "--collect", "--scope", *where, "sh", "-c", _PROCESSES)
            sessions.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        yield
    finally:
        scopes = [f"{_PREFIX}-session-{number}.scope" for number in range(SESSIONS)]
        units = (*names, *(f"{name}.timer" for name in timers), *scopes)
        subprocess.run(("systemctl", "stop", *units), check=False, capture_output=True)
        for session in sessions:
            session.wait()


def burst() -> None:
    """Start short services, all at once."""
    for _ in range(BURST):
        _run("--no-block", "sleep", "2")


def build(engine: PrivateEngine, workloads: Containers, context: Path) -> None:
    """Build an image of two steps by the engine's own builder."""
    context.mkdir()
    (context / "Dockerfile").write_text(f"FROM {workloads.image}\nRUN sleep 1\nRUN sleep 1\n")
    words = ("docker", "-H", f"unix://{engine.socket_path}", "build", "--no-cache", "--network", "none", str(context))
    done = subprocess.run(
        words, env={"DOCKER_BUILDKIT": "0", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _run(*words: str) -> None:
    subprocess.run(("systemd-run", "--quiet", "--collect", *words), check=True, capture_output=True)
