"""Owners that start while the sidecar is dead, on a real Docker: on their own CPUs, by the books, and on no other's."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.runtime.owner_start import decoded
from sidecar.runtime.standing import BEGUN, FOLDER, OWNERS
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import PATIENCE_SECONDS, RUNTIME, STAY, Docker, first_cpus, installed, shell
from tests.live.test_default_runtime import engine, usual
from tests.live.waiting import eventually

__all__ = ["engine"]

pytestmark = [pytest.mark.live, pytest.mark.slow]

FRONTS = pytest.mark.parametrize("runtime", ["", RUNTIME], ids=["default", "chosen"])


@pytest.fixture
def docker(engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path) -> Iterator[Docker]:
    """Yield Docker's client on an engine on which everything starts through the front, with a sidecar."""
    for made in installed(engine, ground, tmp_path, "--default"):
        sidecar.start()
        yield made


def owned(docker: Docker, sidecar: SidecarProcess, runtime: str, *options: str) -> str:
    """Start an owner with a restart policy; return its id, once its next start is written down."""
    always = ("-d", "--restart", "always", *options)
    done = shell(docker, "owner", STAY, runtime=runtime, exclusive=1, options=always)
    assert done.returncode == 0, done.stderr
    id = str(docker.inspect("owner")["Id"])
    eventually(lambda: id in written(sidecar), "its next start is written down")
    return id


def written(sidecar: SidecarProcess) -> dict[str, str]:
    """Return what fronts answer to owners without the sidecar."""
    try:
        found = decoded((sidecar.state_dir / FOLDER / OWNERS).read_bytes())
    except FileNotFoundError:
        return {}
    return found.answers if found else {}


def end(docker: Docker, name: str) -> None:
    """Kill its process."""
    os.kill(docker.inspect(name)["State"]["Pid"], signal.SIGKILL)


def starts(docker: Docker, name: str, count: int) -> None:
    """Wait until it has started so often, by what it prints."""
    first_cpus(docker, name, count)


@FRONTS
def test_its_restart_policy_brings_it_back_on_its_cpus(docker: Docker, sidecar: SidecarProcess, runtime: str) -> None:
    """At once, with its limit lifted and its projection mounted. No plain newcomer is there; and the next sidecar finds
    it where its books have it.
    """
    id = owned(docker, sidecar, runtime, "--cpus", "1")
    sidecar.kill()
    began = time.monotonic()
    end(docker, "owner")
    starts(docker, "owner", 2)
    assert time.monotonic() - began < PATIENCE_SECONDS
    assert (sidecar.state_dir / FOLDER / BEGUN / id).exists()
    assert usual(docker, "plain").returncode == 0
    assert first_cpus(docker, "owner") == [LAST, LAST]
    assert first_cpus(docker, "plain") == [REST]
    assert "/run/cpuset-sidecar" in docker.call("exec", docker.full("owner"), "cat", "/proc/mounts").stdout
    sidecar.start()
    sidecar.until(id, lambda each: each.is_settled, "it is settled again")
    assert first_cpus(docker, "owner") == [LAST, LAST]


@FRONTS
def test_an_engine_that_starts_again_brings_it_back_without_a_sidecar(
    engine: PrivateEngine, docker: Docker, sidecar: SidecarProcess, runtime: str
) -> None:
    """While the engine itself answers nobody; people may restart it as well."""
    owned(docker, sidecar, runtime)
    assert usual(docker, "plain", "--restart", "always").returncode == 0
    sidecar.until_quiet()
    sidecar.kill()
    engine.stop()
    engine.start()
    starts(docker, "owner", 2)
    starts(docker, "plain", 2)
    assert docker.call("restart", "-t0", docker.full("owner")).returncode == 0
    assert first_cpus(docker, "owner", 3) == [LAST] * 3
    assert first_cpus(docker, "plain", 2) == [REST] * 2


@FRONTS
def test_one_whose_grant_was_given_up_is_never_on_it_again(
    docker: Docker, sidecar: SidecarProcess, runtime: str
) -> None:
    """Also if another owner has those CPUs by the time that the sidecar is killed."""
    id = owned(docker, sidecar, runtime)
    assert sidecar.command("release", docker.full("owner")).returncode == 0
    eventually(lambda: id not in written(sidecar), "its start is withdrawn")
    assert usual(docker, "next", "--restart", "always", exclusive=1).returncode == 0
    next_one = str(docker.inspect("next")["Id"])
    eventually(lambda: set(written(sidecar)) == {next_one}, "the next owner's is written down")
    sidecar.kill()
    end(docker, "next")
    starts(docker, "next", 2)
    refused = docker.call("restart", "-t0", docker.full("owner"))
    assert refused.returncode != 0
    assert "nothing answers on" in refused.stderr
    assert first_cpus(docker, "next") == [LAST, LAST]
    assert first_cpus(docker, "owner") == [LAST]


def test_kill_after_kill_an_owner_comes_back(docker: Docker, sidecar: SidecarProcess) -> None:
    """Each run withdraws what the last one wrote, and writes it again; between them it is answered."""
    owned(docker, sidecar, "")
    for count in range(2, 5):
        sidecar.kill()
        assert docker.call("restart", "-t0", docker.full("owner")).returncode == 0
        # The next restart would kill it before it has printed.
        starts(docker, "owner", 2 * count - 2)
        sidecar.start(until_ready=False)
        assert docker.call("restart", "-t0", docker.full("owner")).returncode == 0
        assert first_cpus(docker, "owner", 2 * count - 1) == [LAST] * (2 * count - 1)
        sidecar.until_ready()
        eventually(lambda: bool(written(sidecar)), "its next start is written down")


@pytest.mark.parametrize("pin", [(), ("--cpuset-cpus", str(LAST))], ids=["plain", "pinned"])
def test_no_name_of_a_cgroup_parent_leads_past_the_order(
    docker: Docker, sidecar: SidecarProcess, pin: tuple[str, ...]
) -> None:
    """A parent may be called like a container that is none, or like the owner, elsewhere: it begins in the pool."""
    owner = owned(docker, sidecar, "")
    sidecar.kill()
    for number, parent in enumerate((f"/{'d' * 64}", f"/x/{owner}", f"/x/libpod-{'d' * 64}.scope")):
        done = shell(docker, f"new-{number}", STAY, runtime="", options=("-d", "--cgroup-parent", parent, *pin))
        if "invalid cgroup-parent" in done.stderr or "slice" in done.stderr:
            pytest.skip("with systemd's driver a parent is a slice")
        assert done.returncode == 0, done.stderr
        starts(docker, f"new-{number}", 1)
        assert first_cpus(docker, f"new-{number}") == [REST]
