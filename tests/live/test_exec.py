"""Where `docker exec`, a health check and `podman exec` begin on real engines: on the CPUs of the label, by a front."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.runtime.standing import EXEC, FOLDER
from state.cpuset import CPUSet
from tests.live.kernelview import online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.stricthost import Docker, installed
from tests.live.test_default_runtime import engine, usual
from tests.live.waiting import eventually

__all__ = ["engine"]

pytestmark = [pytest.mark.live, pytest.mark.slow]

SHOW = ("grep", "Cpus_allowed_list", "/proc/self/status")


@pytest.fixture
def docker(engine: PrivateEngine, ground: Ground, sidecar: SidecarProcess, tmp_path: Path) -> Iterator[Docker]:
    """Yield Docker's client on an engine on which everything starts through the front."""
    for made in installed(engine, ground, tmp_path, "--default"):
        sidecar.start()
        yield made


def begins(docker: Docker, name: str) -> CPUSet:
    """Return where a process may run that joins this container."""
    done = docker.call("exec", docker.full(name), *SHOW)
    assert done.returncode == 0, done.stderr
    return CPUSet.parse(done.stdout.split()[1])


def has_file(docker: Docker, sidecar: SidecarProcess, name: str) -> bool:
    return (sidecar.state_dir / FOLDER / EXEC / str(docker.inspect(name)["Id"])).exists()


@pytest.mark.parametrize(
    ("rule", "chosen"), [("last", LAST), ("first", CPUSet.of(0)), ("1-1000", online() - CPUSet.of(0))]
)
def test_exec_begins_where_the_label_says(docker: Docker, sidecar: SidecarProcess, rule: str, chosen: CPUSet) -> None:
    """The container itself runs on all of its CPUs; and nothing changes while no sidecar runs."""
    assert usual(docker, "judged", "--label", f"cpuset.exec={rule}").returncode == 0
    eventually(lambda: has_file(docker, sidecar, "judged"), "the file is written")
    assert begins(docker, "judged") == chosen
    own = Path(f"/proc/{docker.inspect('judged')['State']['Pid']}/status").read_text()
    assert f"Cpus_allowed_list:\t{online()}\n" in own
    sidecar.kill()
    assert begins(docker, "judged") == chosen


def test_a_health_check_begins_there_too(docker: Docker, sidecar: SidecarProcess) -> None:
    """It is what most processes are that join a container."""
    shown = " ".join(SHOW)
    options = ("--label", "cpuset.exec=last", "--health-cmd", shown, "--health-interval", "100ms")
    assert usual(docker, "checked", *options).returncode == 0

    def last_check() -> str:
        found = docker.inspect("checked")["State"]["Health"]["Log"]
        return str(found[-1]["Output"]).strip() if found else ""

    eventually(lambda: last_check() == f"Cpus_allowed_list:\t{LAST}", "a health check begins on its last CPU")


def test_without_a_label_or_where_its_cpus_changed_since_exec_begins_on_all(
    docker: Docker, sidecar: SidecarProcess
) -> None:
    """A file that is out of date keeps nothing from beginning."""
    assert usual(docker, "plain").returncode == 0
    assert begins(docker, "plain") == online()
    assert usual(docker, "moved", "--label", "cpuset.exec=first").returncode == 0
    eventually(lambda: has_file(docker, sidecar, "moved"), "the file is written")
    sidecar.kill()
    changed = docker.call("update", "--cpuset-cpus", str(LAST), docker.full("moved"))
    assert changed.returncode == 0, changed.stderr
    assert begins(docker, "moved") == LAST


def test_what_explain_says_is_so(docker: Docker, sidecar: SidecarProcess) -> None:
    """In a sentence."""
    assert usual(docker, "told", "--label", "cpuset.exec=last").returncode == 0
    eventually(lambda: has_file(docker, sidecar, "told"), "the file is written")
    sidecar.until(str(docker.inspect("told")["Id"]), lambda it: it.exec_cpus == LAST, "the status says so")
    done: subprocess.CompletedProcess[str] = sidecar.command("explain", docker.full("told"))
    assert f"exec and health checks begin on {LAST} (cpuset.exec is last)" in done.stdout
