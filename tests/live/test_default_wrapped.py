"""Runtimes of the user's own behind fronts on a real Docker: with arguments, one alone, and below a stopped engine."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import SidecarProcess
from tests.live.stricthost import RUNTIME, STAY, Docker, install, shell
from tests.live.test_default_runtime import LOGGED, engine, reload, told, usual, with_logged, without_logged
from tests.live.waiting import eventually

__all__ = ["engine"]

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def before(engine: PrivateEngine) -> Iterator[bytes]:
    """Provide the configuration file of the engine as it is, and give it that again."""
    content = (engine.folder / "daemon.json").read_bytes()
    yield content
    if (engine.folder / "daemon.json").read_bytes() != content:
        without_logged(engine, content)


def created_with(log: Path, word: str) -> list[bool]:
    """Return of each creation whether that runtime was called with this word."""
    return [word in line.split() for line in log.read_text().splitlines() if " create " in line]


def pid_of(docker: Docker, name: str) -> int:
    return int(docker.inspect(name)["State"]["Pid"])


def has_another(docker: Docker, name: str, pid: int) -> bool:
    """Return whether a container runs with another first process than this one."""
    return pid_of(docker, name) not in (0, pid)


def test_what_lives_under_a_runtime_with_arguments_lives_on_before_and_behind_the_front(
    engine: PrivateEngine, ground: Ground, before: bytes, tmp_path: Path
) -> None:
    """It is entered, ends, and starts again, by hand and by its restart policy; the arguments are those of before."""
    log = with_logged(engine, "--debug")
    made = Docker(ground.api, ground.image, "args")
    try:
        assert usual(made, "old", "--restart", "always").returncode == 0
        for number, words in enumerate((("--default",), ("--default",), ("--remove",), ("--remove",))):
            done = install(engine, tmp_path, *words)
            assert done.returncode == 0, done.stderr
            assert usual(made, f"new{number}").returncode == 0
            for name in ("old", *(f"new{each}" for each in range(number + 1))):
                assert made.call("exec", made.full(name), "true").returncode == 0
                assert made.call("restart", "-t0", made.full(name)).returncode == 0
            was = pid_of(made, "old")
            os.kill(was, signal.SIGKILL)
            eventually(partial(has_another, made, "old", was), "it starts by its policy")
        assert len(created_with(log, "--debug")) > 10
        assert all(created_with(log, "--debug"))
        assert not any(created_with(log, "--behind-cpuset-front"))
        for name in [made.full(f"new{number}") for number in range(4)]:
            assert made.call("rm", "-f", name).returncode == 0
        assert made.call("restart", "-t0", made.full("old")).returncode == 0
        assert "under the front" not in install(engine, tmp_path, "--remove").stdout
    finally:
        made.remove_all()


def test_one_runtime_goes_from_behind_its_front_while_the_default_stays(
    engine: PrivateEngine, ground: Ground, before: bytes, tmp_path: Path
) -> None:
    """The engine's default is a front all the while, and no hindrance."""
    with_logged(engine)
    settings = json.loads((engine.folder / "daemon.json").read_text())
    (engine.folder / "daemon.json").write_text(json.dumps({**settings, "default-runtime": "runc"}))
    reload(engine)
    eventually(lambda: told(engine)[0] == "runc", "the engine has its own default")
    path = told(engine)[1][LOGGED]["path"]
    assert install(engine, tmp_path, "--wrap", LOGGED).returncode == 0
    assert install(engine, tmp_path, "--default").returncode == 0
    done = install(engine, tmp_path, "--remove", "--wrap", LOGGED)
    assert done.returncode == 0, done.stderr
    assert (told(engine)[0], told(engine)[1][LOGGED]["path"]) == ("cpuset-default", path)
    assert not list((engine.folder / "strict").rglob(f"*{LOGGED}*"))
    assert install(engine, tmp_path, "--remove").returncode == 0
    assert told(engine)[0] == "runc"


def test_what_outlives_its_engine_keeps_the_runtimes_by_which_it_is_stopped(
    engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path
) -> None:
    """With live-restore, while dockerd is stopped: its containers are found without it."""
    engine.stop()
    engine.start(live_restore=True)
    assert install(engine, tmp_path, "--default").returncode == 0
    made = Docker(ground.api, ground.image, "outlives")
    sidecar.start()
    try:
        assert usual(made, "plain").returncode == 0
        assert shell(made, "strict", STAY, runtime=RUNTIME, exclusive=1, options=("-d",)).returncode == 0
        short = made.inspect("strict")["Id"][:12]
        engine.stop()
        done = install(engine, tmp_path, "--remove")
        assert (done.returncode, f"nothing was removed: {short} runs under" in done.stderr) == (1, True), done
        done = install(engine, tmp_path, "--remove", "--default")
        assert done.returncode == 0, done.stderr
        assert "passes everything on until a further --remove finds none" in done.stdout
        engine.start(live_restore=True)
        for name in ("plain", "strict"):
            assert made.call("exec", made.full(name), "true").returncode == 0
            assert made.call("stop", "-t0", made.full(name)).returncode == 0
    finally:
        if engine.is_stopped:
            engine.start(live_restore=True)
        made.remove_all()
        done = install(engine, tmp_path, "--remove")
        engine.stop()
        engine.start()
    assert done.returncode == 0, done.stderr
