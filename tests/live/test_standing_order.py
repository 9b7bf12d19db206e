"""The standing order on a real Docker: plain containers start by it with a sidecar that is dead, stopped or busy."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compose.demo.sampler import Sampler
from sidecar.runtime.standing import BEGUN, COPY, FOLDER, ORDER
from state.cpuset import CPUSet
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import PATIENCE_SECONDS, Docker, first_cpus, install, installed
from tests.live.test_default_runtime import LOGGED, engine, reload, told, usual, without_logged
from tests.live.waiting import PATIENCE, eventually

__all__ = ["engine"]

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.fixture
def docker(engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path) -> Iterator[Docker]:
    """Yield Docker's client on an engine on which everything starts through the front; an owner runs on its CPU."""
    for made in installed(engine, ground, tmp_path, "--default"):
        sidecar.start()
        assert usual(made, "owner", exclusive=1).returncode == 0
        eventually(lambda: order_of(sidecar) == REST, "the order is narrowed")
        yield made


def order_of(sidecar: SidecarProcess) -> CPUSet | None:
    """Return the CPUs of the order on the disk."""
    try:
        lines = (sidecar.state_dir / FOLDER / ORDER).read_text().splitlines()
    except FileNotFoundError:
        return None
    return CPUSet.parse(next(line.split(" ", 1)[1] for line in lines if line.startswith("cpus ")))


@contextmanager
def noted_starts(sidecar: SidecarProcess) -> Iterator[set[str]]:
    """Yield the ids of the containers of which fronts write down during the block that they begin by the order. A
    daemon that is awake forgets each once its runtime has ended.
    """
    found = set[str]()
    sampler = Sampler(0.005, lambda: found.update(os.listdir(sidecar.state_dir / FOLDER / BEGUN)))
    sampler.start()
    try:
        yield found
    finally:
        sampler.stop()


@pytest.mark.parametrize("how", ["alive", "stopped", "killed"])
def test_a_plain_container_starts_by_it_without_a_question(docker: Docker, sidecar: SidecarProcess, how: str) -> None:
    """Also beside a daemon that answers nobody, and without one; and so does its next start."""
    if how == "stopped":
        sidecar.freeze()
    elif how == "killed":
        sidecar.kill()
    began = time.monotonic()
    with noted_starts(sidecar) as noted:
        done = usual(docker, "plain")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 10 * PATIENCE
    assert first_cpus(docker, "plain") == [REST]
    assert docker.inspect("plain")["Id"] in noted
    assert docker.call("restart", "-t0", docker.full("plain")).returncode == 0
    assert first_cpus(docker, "plain", starts=2) == [REST, REST]
    if how == "stopped":
        sidecar.thaw()


def test_no_container_has_the_lock_and_the_next_owner_waits_for_none(docker: Docker, sidecar: SidecarProcess) -> None:
    """It ends with the call of the runtime."""
    assert usual(docker, "plain").returncode == 0
    # Until then the process may still be its runtime's, which closes its files one after another.
    assert first_cpus(docker, "plain") == [REST]
    pid = docker.inspect("plain")["State"]["Pid"]
    links = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    assert not [each for each in links if FOLDER in each]
    docker.call("rm", "--force", docker.full("owner"))
    eventually(lambda: not sidecar.status().exclusive, "its CPU is free")
    assert usual(docker, "next", exclusive=1).returncode == 0
    assert first_cpus(docker, "next") == [LAST]


def test_one_that_asks_is_refused_without_a_sidecar_and_started_with_the_next(
    docker: Docker, sidecar: SidecarProcess
) -> None:
    """The order is not for it. The next run knows who has which CPUs."""
    sidecar.kill()
    refused = usual(docker, "more", exclusive=1)
    assert refused.returncode == 125
    assert "nothing answers on" in refused.stderr
    sidecar.start()
    assert docker.call("restart", "-t0", docker.full("owner")).returncode == 0
    assert first_cpus(docker, "owner", starts=2) == [LAST, LAST]


def test_an_order_that_is_torn_is_not_followed(docker: Docker, sidecar: SidecarProcess) -> None:
    """With a daemon it asks; without one, the copy is what is known."""
    path = sidecar.state_dir / FOLDER / ORDER
    copy = path.with_name(COPY)
    # It is written every few seconds: there may be one from before the owner came.
    eventually(lambda: copy.exists() and copy.read_bytes() == path.read_bytes(), "the copy was written")
    path.write_bytes(path.read_bytes()[:-9])
    assert usual(docker, "asking").returncode == 0
    assert first_cpus(docker, "asking") == [REST]
    sidecar.kill()
    assert usual(docker, "alone").returncode == 0
    assert first_cpus(docker, "alone") == [REST]


def test_a_start_that_hangs_is_named_and_holds_up_who_needs_its_cpus(
    engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path
) -> None:
    """Its runtime was called with the older order, and does not go on: its CPUs are given to nobody before it does."""
    before = (engine.folder / "daemon.json").read_bytes()
    gate, script = engine.folder / "gate", engine.folder / "slow-runc"
    script.write_text(
        f'#!/bin/sh\ncase " $* " in *" create "*) while [ -e {gate} ]; do sleep 0.1; done;; esac\nexec runc "$@"\n'
    )
    script.chmod(0o755)
    settings = json.loads(before)
    own = {"runtimes": {LOGGED: {"path": str(script)}}, "default-runtime": LOGGED}
    (engine.folder / "daemon.json").write_text(json.dumps({**settings, **own}))
    reload(engine)
    eventually(lambda: told(engine)[0] == LOGGED, "the engine has that default")
    made = Docker(ground.api, ground.image, "hanging")
    try:
        done = install(engine, tmp_path, "--default", "--patience", f"{PATIENCE_SECONDS:g}")
        assert done.returncode == 0, done.stderr
        sidecar.start()
        eventually(lambda: order_of(sidecar) == REST | LAST, "there is an order")
        gate.write_text("")
        api = ground.api
        plain = api.create("hanging-plain", ground.image, "sleep", "1000")
        made.made.append("hanging-plain")
        pid = os.fork()
        if pid == 0:
            try:
                api.act(plain, "start")
            finally:
                os._exit(0)
        begun = sidecar.state_dir / FOLDER / BEGUN / plain
        eventually(begun.exists, "its front has taken the order")
        owner = made.begin("owner", "sh", "-c", "grep Cpus_allowed_list /proc/self/status; sleep 1000", exclusive=1)
        eventually(lambda: plain[:12] in sidecar.log() and "by an older order" in sidecar.log(), "it is named")
        assert owner.poll() is None
        waits = f"waits for what starts by an older order to leave {LAST}"
        assert waits in sidecar.command("status").stdout
        assert waits in sidecar.command("explain", made.full("owner")).stdout
        gate.unlink()
        _, said = owner.communicate(timeout=60)
        assert (owner.returncode, said) == (0, "")
        os.waitpid(pid, 0)
        assert first_cpus(made, "owner") == [LAST]
    finally:
        gate.unlink(missing_ok=True)
        made.remove_all()
        assert install(engine, tmp_path, "--remove").returncode == 0
        without_logged(engine, before)


def test_kill_after_kill_no_plain_container_meets_the_owner(docker: Docker, sidecar: SidecarProcess) -> None:
    """The order of each run is that of the last one until the daemon speaks."""
    for number in range(4):
        sidecar.kill()
        assert usual(docker, f"dead-{number}").returncode == 0
        sidecar.start(until_ready=False)
        assert usual(docker, f"starting-{number}").returncode == 0
        assert first_cpus(docker, f"dead-{number}") == first_cpus(docker, f"starting-{number}") == [REST]
        sidecar.until_ready()
    os.kill(docker.inspect("owner")["State"]["Pid"], signal.SIGKILL)
