"""Strict start and the engine's own start: it starts its containers before it answers any request."""

from __future__ import annotations

import os
import threading

import pytest

from sidecar.runtime.standing import FOLDER, OWNERS
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import STAY, Docker, docker, first_cpus, shell
from tests.live.waiting import PATIENCE, eventually

__all__ = ["docker"]

pytestmark = [pytest.mark.live, pytest.mark.slow]

ALWAYS = ("-d", "--restart", "always")


def up(docker: Docker, sidecar: SidecarProcess) -> None:
    """Run one exclusive and one shared container of the strict runtime, and one of another runtime."""
    sidecar.start()
    assert shell(docker, "one", STAY, exclusive=1, options=ALWAYS).returncode == 0
    assert shell(docker, "shared", STAY, options=ALWAYS).returncode == 0
    assert shell(docker, "plain", STAY, options=ALWAYS, runtime="runc").returncode == 0
    sidecar.until_quiet()


def test_an_engine_that_starts_again_starts_them_where_they_were(
    own_engine: PrivateEngine, docker: Docker, sidecar: SidecarProcess
) -> None:
    """The sidecar stays, and answers from its State, since the engine cannot be asked."""
    up(docker, sidecar)
    own_engine.stop()
    own_engine.start()
    assert first_cpus(docker, "one", starts=2) == [LAST, LAST]
    assert first_cpus(docker, "shared", starts=2) == [REST, REST]
    assert docker.inspect("plain")["State"]["Running"]
    sidecar.until_quiet()


def test_so_does_a_machine_that_starts_again(
    own_engine: PrivateEngine, docker: Docker, sidecar: SidecarProcess
) -> None:
    """The sidecar is restarted, too, while the engine waits for it; it reads its State from the disk."""
    up(docker, sidecar)
    own_engine.stop()
    sidecar.kill()
    starting = threading.Thread(target=own_engine.start)
    starting.start()
    eventually(lambda: os.path.exists(own_engine.socket_path), "the engine listens")
    sidecar.start(until_ready=False)
    starting.join(100 * PATIENCE)
    assert first_cpus(docker, "one", starts=2) == [LAST, LAST]
    assert first_cpus(docker, "shared", starts=2) == [REST, REST]
    sidecar.until_ready()
    sidecar.until_quiet()


def test_an_engine_without_a_sidecar_starts_all_others_after_the_patience(
    own_engine: PrivateEngine, docker: Docker, sidecar: SidecarProcess
) -> None:
    """No other container is kept from starting; the reason is with the refused one. What was written down for it is
    gone, as after a boot.
    """
    up(docker, sidecar)
    sidecar.kill()
    (sidecar.state_dir / FOLDER / OWNERS).unlink(missing_ok=True)
    own_engine.stop()
    own_engine.start()
    assert docker.inspect("plain")["State"]["Running"]
    state = docker.inspect("one")["State"]
    assert not state["Running"]
    assert "nothing answers on" in state["Error"]
    sidecar.start()
    assert docker.call("start", docker.full("one")).returncode == 0
    assert first_cpus(docker, "one", starts=2) == [LAST, LAST]
