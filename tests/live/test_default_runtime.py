"""The runtime that asks as the engine's default, on a real Docker: used, and taken back in safe steps."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sidecar.__main__ import main
from sidecar.cli.setup.dockerd_process import Dockerd
from sidecar.host.install.front_program import find_program, is_compiled
from sidecar.host.install.fronts import DEFAULT_NAME
from state import files
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import STAY, Docker, first_cpus, install, install_words, installed, shell
from tests.live.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.live, pytest.mark.slow]

LOGGED = "logged"


@pytest.fixture
def engine(own_engine: PrivateEngine) -> PrivateEngine:
    """Provide an engine whose configuration a test may change."""
    if own_engine.program != "dockerd":
        pytest.skip("the default runtime is set up on a Docker engine of the tests' own only")
    return own_engine


@pytest.fixture
def docker(engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path) -> Iterator[Docker]:
    """Yield Docker's client on an engine on which everything starts through the front; its sidecar is not started."""
    yield from installed(engine, ground, tmp_path, "--default")


def told(engine: PrivateEngine) -> tuple[str, dict[str, Any]]:
    """Return what the engine tells of its default runtime and of all of them."""
    info = engine.api.ask("GET", "info")
    return info["DefaultRuntime"], info["Runtimes"]


def usual(docker: Docker, name: str, *options: str, exclusive: int = 0) -> subprocess.CompletedProcess[str]:
    return shell(docker, name, STAY, runtime="", exclusive=exclusive, options=("-d", *options))


def test_whatever_names_no_runtime_starts_where_it_belongs(
    engine: PrivateEngine, docker: Docker, sidecar: SidecarProcess
) -> None:
    """Its own CPUs, or the shared pool, from the first instruction. A shortage refuses only what wants that."""
    assert told(engine)[0] == DEFAULT_NAME
    sidecar.start()
    assert usual(docker, "one", exclusive=1).returncode == 0
    assert usual(docker, "plain").returncode == 0
    assert usual(docker, "more", exclusive=1).returncode == 0
    stop = usual(docker, "stop", "--label", "cpuset.on-shortage=stop", exclusive=1)
    assert stop.returncode == 125
    assert "asked for 1 exclusive CPU, 0 free" in stop.stderr
    assert [first_cpus(docker, name) for name in ("one", "plain", "more")] == [[LAST], [REST], [REST]]
    assert "/run/cpuset-sidecar" not in docker.call("exec", docker.full("plain"), "cat", "/proc/mounts").stdout
    assert "/run/cpuset-sidecar" in docker.call("exec", docker.full("one"), "cat", "/proc/mounts").stdout


def test_what_was_created_before_is_named_and_goes_around_until_it_is_recreated(
    engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path
) -> None:
    """Docker writes the name of the default into each container."""
    made = Docker(ground.api, ground.image, "before-default")
    try:
        assert usual(made, "old").returncode == 0
        done = install(engine, tmp_path, "--default")
        assert (
            f"created with runc, and so started around it until they are recreated: {made.full('old')}" in done.stdout
        )
        assert "not wrapped, and so a way around: runc" in done.stdout
    finally:
        made.remove_all()
        assert install(engine, tmp_path, "--remove").returncode == 0


def test_a_dead_sidecar_stops_only_what_asks_for_cpus(docker: Docker, sidecar: SidecarProcess) -> None:
    """Everything else starts at once, as without it."""
    done = usual(docker, "plain")
    assert done.returncode == 0, done.stderr
    refused = usual(docker, "one", exclusive=1)
    assert refused.returncode == 125
    assert "nothing answers on" in refused.stderr


def test_an_engine_that_starts_again_starts_all_of_them_through_the_front(
    engine: PrivateEngine, docker: Docker, sidecar: SidecarProcess
) -> None:
    """Restart policies come along, while the engine itself answers nobody."""
    sidecar.start()
    assert usual(docker, "one", "--restart", "always", exclusive=1).returncode == 0
    assert usual(docker, "plain", "--restart", "always").returncode == 0
    sidecar.until_quiet()
    engine.stop()
    engine.start()
    assert told(engine)[0] == DEFAULT_NAME
    assert first_cpus(docker, "one", 2) == [LAST, LAST]
    assert first_cpus(docker, "plain", 2) == [REST, REST]


def with_logged(engine: PrivateEngine, *args: str) -> Path:
    """Give the engine a default runtime of the user's own: a script that logs its calls, and calls runc."""
    log, script = engine.folder / "calls", engine.folder / "logged-runc"
    script.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec runc "$@"\n')
    script.chmod(0o755)
    log.write_text("")
    settings = json.loads((engine.folder / "daemon.json").read_text())
    entry = {"path": str(script), **({"runtimeArgs": args} if args else {})}
    own = {"runtimes": {LOGGED: entry}, "default-runtime": LOGGED}
    (engine.folder / "daemon.json").write_text(json.dumps({**settings, **own}, indent=3))
    reload(engine)
    eventually(lambda: told(engine)[0] == LOGGED, "the engine has that default")
    return log


def without_logged(engine: PrivateEngine, before: bytes) -> None:
    """Take it back: by its name first, as this engine needs it."""
    settings = json.loads((engine.folder / "daemon.json").read_text())
    (engine.folder / "daemon.json").write_text(json.dumps({**settings, "default-runtime": "runc"}))
    reload(engine)
    eventually(lambda: told(engine)[0] == "runc", "the engine has its own default")
    (engine.folder / "daemon.json").write_text(json.dumps({**json.loads(before), "runtimes": {}}))
    reload(engine)
    eventually(lambda: LOGGED not in told(engine)[1], "the engine has forgotten the other")
    (engine.folder / "daemon.json").write_bytes(before)


def reload(engine: PrivateEngine) -> None:
    os.kill(int((engine.folder / "pid").read_text()), signal.SIGHUP)


def creations(log: Path) -> int:
    """Return how many containers that runtime was called to create."""
    return sum(" create " in line for line in log.read_text().splitlines())


@pytest.mark.parametrize("which", ["python", "auto"])
def test_a_default_runtime_of_before_sees_each_start_and_is_the_default_again(
    engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path, which: str
) -> None:
    """It stays the real one behind the front, with its name; afterwards everything is byte for byte as it was."""
    before = (engine.folder / "daemon.json").read_bytes()
    log = with_logged(engine)
    wrapped = (engine.folder / "daemon.json").read_bytes()
    path = told(engine)[1][LOGGED]["path"]
    made = Docker(ground.api, ground.image, "logged")
    try:
        assert usual(made, "old").returncode == 0
        assert creations(log) == 1
        sidecar.start()
        for _ in range(2):
            done = install(engine, tmp_path, "--default", "--front", which)
            assert done.returncode == 0, done.stderr
        assert told(engine)[0] == LOGGED
        assert told(engine)[1][LOGGED]["path"] != path
        assert usual(made, "one", exclusive=1).returncode == 0
        assert first_cpus(made, "one") == [LAST]
        assert made.call("restart", "-t0", made.full("old")).returncode == 0
        assert first_cpus(made, "old", 2)[1:] == [REST]
        assert creations(log) == 3
        done = install(engine, tmp_path, "--remove")
        assert done.returncode == 0, done.stderr
        assert f"under the front {LOGGED}, which stays and passes everything on" in done.stdout
        assert (told(engine)[0], told(engine)[1][LOGGED]["path"]) == (LOGGED, path)
        assert (engine.folder / "daemon.json").read_bytes() == wrapped
        assert made.call("exec", made.full("one"), "true").returncode == 0
        for name in ("one", "old"):
            assert made.call("restart", "-t0", made.full(name)).returncode == 0
        assert creations(log) == 5
        assert "under the front" not in install(engine, tmp_path, "--remove").stdout
        assert not list((engine.folder / "strict").rglob("*fronts*"))
    finally:
        made.remove_all()
        without_logged(engine, before)
    assert told(engine)[0] == "runc"


def test_what_lives_under_the_front_is_named_and_lives_on_until_it_is_recreated(
    engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path
) -> None:
    """It can be stopped, started and entered; the last removal leaves nothing."""
    before = (engine.folder / "daemon.json").read_bytes()
    assert install(engine, tmp_path, "--default").returncode == 0
    made = Docker(ground.api, ground.image, "living")
    try:
        assert usual(made, "plain").returncode == 0
        done = install(engine, tmp_path, "--remove")
        assert done.returncode == 0, done.stderr
        assert f"passes everything on until a further --remove finds none: {made.full('plain')}" in done.stdout
        assert told(engine)[0] == "runc"
        assert made.call("exec", made.full("plain"), "true").returncode == 0
        assert made.call("restart", "-t0", made.full("plain")).returncode == 0
        assert usual(made, "new").returncode == 0
        assert made.inspect("new")["HostConfig"]["Runtime"] == "runc"
        engine.stop()
        engine.start()
        assert made.call("start", made.full("plain")).returncode == 0
    finally:
        made.remove_all()
    assert install(engine, tmp_path, "--remove").returncode == 0
    assert DEFAULT_NAME not in told(engine)[1]
    assert json.loads((engine.folder / "daemon.json").read_bytes()) == json.loads(before)
    assert not list((engine.folder / "strict").rglob("*fronts*"))


@pytest.mark.timeout(300 * PATIENCE)
def test_each_step_twice_and_over_the_script_the_engine_lives_and_never_restarts(
    engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path
) -> None:
    """The script, the compiled front over it, the script again: what runs is stopped, entered and started by whichever
    stands there, and each start is answered. Then all of it goes, with what lives under it last.
    """
    if find_program() is None:
        pytest.skip("needs the compiled front: a C compiler and yajl when the sidecar is installed")
    before, pid = (engine.folder / "daemon.json").read_bytes(), (engine.folder / "pid").read_text()
    front = engine.folder / f"strict/lib/cpuset-sidecar/fronts/docker/{DEFAULT_NAME}"
    made = Docker(ground.api, ground.image, "twice")
    sidecar.start()
    try:
        for number, which in enumerate(("python", "compiled", "python", "compiled")):
            for _ in range(2):
                done = install(engine, tmp_path, "--default", "--front", which)
                assert done.returncode == 0, done.stderr
                assert told(engine)[0] == DEFAULT_NAME
            assert is_compiled(str(front)) == (which == "compiled")
            if not number:
                assert usual(made, "one", exclusive=1).returncode == 0
            assert usual(made, f"plain-{number}").returncode == 0
            for name in ("one", "plain-0"):
                assert made.call("exec", made.full(name), "true").returncode == 0
                assert made.call("restart", "-t0", made.full(name)).returncode == 0
        assert first_cpus(made, "one", 5) == [LAST] * 5
        assert first_cpus(made, "plain-0", 5) == [REST] * 5
        for _ in range(2):
            done = install(engine, tmp_path, "--remove")
            assert done.returncode == 0, done.stderr
            assert told(engine)[0] == "runc"
            assert f"passes everything on until a further --remove finds none: {made.full('one')}" in done.stdout
            assert made.call("restart", "-t0", made.full("one")).returncode == 0
            assert made.run("new", "true", runtime="", options=("--rm",)).returncode == 0
    finally:
        made.remove_all()
        for _ in range(2):
            assert install(engine, tmp_path, "--remove").returncode == 0
    assert DEFAULT_NAME not in told(engine)[1]
    assert json.loads((engine.folder / "daemon.json").read_bytes()) == json.loads(before)
    assert (engine.folder / "pid").read_text() == pid
    assert not list((engine.folder / "strict").rglob("*fronts*"))


def test_a_configuration_that_contradicts_a_flag_is_said_and_the_engine_lives_on(
    engine: PrivateEngine, ground: Ground, tmp_path: Path
) -> None:
    """dockerd takes no such file at a reload: nothing changes in it, and the command says that. Once the contradiction
    is gone, the same command goes on.
    """
    path = engine.folder / "daemon.json"
    before = path.read_bytes()
    made = Docker(ground.api, ground.image, "contradicts")
    for command, after in (("--default", DEFAULT_NAME), ("--remove", "runc")):
        was = told(engine)[0]
        # The engine runs with this as a flag.
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "iptables": False}))
        done = install(engine, tmp_path, command)
        assert done.returncode == 1
        assert "its list of runtimes did not change" in done.stderr
        assert told(engine)[0] == was
        assert made.run("still", "true", runtime="", options=("--rm",)).returncode == 0
        path.write_text(json.dumps({key: at for key, at in json.loads(path.read_bytes()).items() if key != "iptables"}))
        done = install(engine, tmp_path, command)
        assert done.returncode == 0, done.stderr
        assert told(engine)[0] == after
        is_well(engine, made, f"after{command}", restarts=True)
    assert json.loads(path.read_bytes()) == json.loads(before)


class Killed(BaseException):
    """Ends the command where it is, as a signal would."""


def killed_after(steps: int, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> bool:
    """Run the command, and end it after so many changes: of files, or of what the engine was told. Return whether it
    was ended.
    """
    left = itertools.count(steps, -1)

    def counted(honest: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **options: Any) -> Any:
            if next(left) <= 0:
                raise Killed
            return honest(*args, **options)

        return changed

    with monkeypatch.context() as patch:
        for owner, name in ((files, "replace"), (files, "remove"), (Dockerd, "reload")):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        try:
            assert main(words) == 0
        except Killed:
            return True
    return False


def is_well(engine: PrivateEngine, made: Docker, name: str, *, restarts: bool) -> None:
    """Assert that the engine lives through a reload, or a restart, and creates and starts a container."""
    if restarts:
        engine.stop()
        engine.start()
    else:
        reload(engine)
    told(engine)
    done = made.run(name, "true", runtime="", options=("--rm",))
    assert done.returncode == 0, done.stderr
    told(engine)


@pytest.mark.parametrize("command", [("--default",), ("--remove",)])
@pytest.mark.timeout(900)
def test_a_crash_between_any_two_steps_leaves_a_living_engine_and_a_command_that_goes_on(
    engine: PrivateEngine,
    ground: Ground,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
) -> None:
    """Then the engine is reloaded, or restarted; the command is called again, and ends as if nothing had happened."""
    before = (engine.folder / "daemon.json").read_bytes()
    made = Docker(ground.api, ground.image, "crash")
    for steps in itertools.count():
        if command == ("--remove",):
            assert install(engine, tmp_path, "--default").returncode == 0
        was_killed = killed_after(steps, monkeypatch, install_words(engine, tmp_path, *command))
        is_well(engine, made, f"killed-{steps}", restarts=steps % 3 == 1)
        done = install(engine, tmp_path, *command)
        assert done.returncode == 0, done.stderr
        assert (told(engine)[0] == DEFAULT_NAME) == (command == ("--default",))
        is_well(engine, made, f"again-{steps}", restarts=steps % 3 == 2)
        done = install(engine, tmp_path, "--remove")
        assert done.returncode == 0, done.stderr
        assert set(told(engine)[1]).isdisjoint({DEFAULT_NAME, "cpuset"})
        assert json.loads((engine.folder / "daemon.json").read_bytes()) == json.loads(before)
        is_well(engine, made, f"gone-{steps}", restarts=False)
        if not was_killed:
            break
    assert steps > 8
    with suppress(FileNotFoundError):
        assert not list((engine.folder / "strict").rglob("*fronts*"))
