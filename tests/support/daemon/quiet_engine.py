"""An engine without containers and without news, and a whole daemon before it, as a program of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.daemon.rawdaemon import STREAM, Connection, RawDaemon, answer

ROOT: str = str(Path(__file__).parents[3])


@contextmanager
def quiet_engine(folder: Path) -> Iterator[RawDaemon]:
    """Answer as Docker does that has no containers, at a socket in this folder."""

    def events(connection: Connection) -> None:
        connection.send(STREAM)
        connection.hang()

    with RawDaemon(folder / "engine.sock") as engine:
        engine.scripts |= {"/_ping": answer(200, b"OK", "text/plain"), "/containers/json": answer(200, [])}
        engine.scripts["/events"] = events
        yield engine


def flags(folder: Path, engine: RawDaemon, *more: str) -> list[str]:
    """Return what a daemon is told that uses no option: it touches nothing of this machine."""
    here = ["--state-dir", str(folder / "state"), "--projections", str(folder / "told"), "--hand", "off"]
    return ["--policy", "static", "--reserved", "0", "--engine", engine.address, *here, *more]


RUN = ("-m", "sidecar", "run")
"""The daemon as a program."""


def started(words: Sequence[str], log: Path, program: Sequence[str] = RUN) -> subprocess.Popen[bytes]:
    """Start a daemon that is told these words. Its modules are kept compiled in the folder of its log."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with log.open("wb") as told:
        return subprocess.Popen(
            [sys.executable, *program, *words],
            stdout=told,
            stderr=told,
            cwd=ROOT,
            env={**kept, "PYTHONPATH": ROOT, "PYTHONPYCACHEPREFIX": str(log.parent / "compiled")},
        )


def wait_until_ready(daemon: subprocess.Popen[bytes], folder: Path, log: Path, seconds: float = 60) -> None:
    """Wait until it has looked at everything, by what it writes."""
    status, end = folder / "state" / "status.json", time.monotonic() + seconds
    while not (status.exists() and json.loads(status.read_bytes()).get("is_ready")):
        assert daemon.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.001)
