"""The default runtime's install and removal where something is odd or goes on at once, on a real Docker: it lives."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.host.install.fronts import DEFAULT_NAME
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import ROOT
from tests.live.stricthost import Docker, install, install_words
from tests.live.test_default_runtime import engine, is_well, told
from tests.live.waiting import PATIENCE

__all__ = ["engine"]

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def made(engine: PrivateEngine, ground: Ground, tmp_path: Path) -> Iterator[Docker]:
    """Yield Docker's client; everything is removed in the end."""
    made = Docker(ground.api, ground.image, "recovered")
    yield made
    made.remove_all()
    assert install(engine, tmp_path, "--remove").returncode == 0


def test_a_table_that_is_null_ends_no_engine(engine: PrivateEngine, made: Docker, tmp_path: Path) -> None:
    """dockerd starts with one, and a reload would be its end: it never reads the file while one stands there."""
    path = engine.folder / "daemon.json"
    honest, pid = path.read_bytes(), engine.folder / "pid"
    odd = json.dumps({**json.loads(honest), "runtimes": None}).encode()
    path.write_bytes(odd)
    engine.stop()
    engine.start()
    try:
        running = pid.read_text()
        for words in ((), ("--default",)):
            assert install(engine, tmp_path, *words).returncode == 0
            done = install(engine, tmp_path, "--remove")
            assert done.returncode == 0, done.stderr
            assert path.read_bytes() == odd
            assert told(engine)[0] == "runc"
            assert pid.read_text() == running
    finally:
        path.write_bytes(honest)
    is_well(engine, made, "null", restarts=True)


def test_a_default_whose_record_is_gone_goes_too(engine: PrivateEngine, made: Docker, tmp_path: Path) -> None:
    """With its program there, and without: then no container would start."""
    path = engine.folder / "daemon.json"
    honest = json.loads(path.read_bytes())
    for lost in ("strict/etc", "strict"):
        assert install(engine, tmp_path, "--default").returncode == 0
        for each in [*engine.folder.glob(f"{lost}/**/fronts/docker")]:
            shutil.rmtree(each)
        assert told(engine)[0] == DEFAULT_NAME
        done = install(engine, tmp_path, "--remove")
        assert done.returncode == 0, done.stderr
        assert told(engine)[0] == "runc"
        assert json.loads(path.read_bytes()) == honest
        is_well(engine, made, f"after-{lost.replace('/', '-')}", restarts=False)


@pytest.mark.timeout(300 * PATIENCE)
def test_an_install_and_a_removal_at_once_leave_an_engine_that_starts_containers(
    engine: PrivateEngine, made: Docker, tmp_path: Path
) -> None:
    """The last one counts, whole."""
    path, chance = engine.folder / "daemon.json", random.Random(1)
    for number in range(8):
        assert install(engine, tmp_path, "--default").returncode == 0
        both = []
        for word in ("--default", "--remove"):
            command = [sys.executable, "-m", "sidecar", *install_words(engine, tmp_path, word)]
            both.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL))
            time.sleep(chance.random() / 10)
        assert [each.wait(120) for each in both] == [0, 0]
        default, runtimes = told(engine)
        assert json.loads(path.read_bytes()).get("default-runtime", "runc") == default
        assert default == "runc" or os.access(runtimes[default]["path"], os.X_OK)
        done = made.run(f"both-{number}", "true", runtime="", options=("--rm",))
        assert done.returncode == 0, done.stderr
