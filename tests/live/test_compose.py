"""Real Compose on a real engine: a service keeps its CPUs when it is recreated, and a restart asks again.

On a machine with several cores of two threads the services fill whole cores, as on hosts where this went wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from state.cpuset import CPUSet
from tests.live.containers import SLEEP, Containers
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(180 * PATIENCE)]


def cores() -> list[CPUSet]:
    """Return the cores of this machine, each with its threads, that of the first CPU first."""
    path = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    return sorted({CPUSet.parse(Path(path.format(cpu)).read_text()) for cpu in online()}, key=min)


WHOLE: Final = len(cores()) > 1 and all(len(each) > 1 for each in cores())
RESERVED: Final = cores()[0] if WHOLE else CPUSet.of(min(online()))
SIZE: Final = len(RESERVED)
NAMES: Final = tuple(f"service{number}" for number in range((len(online()) - SIZE) // SIZE))
"""As many as there is room for."""


class Project:
    """A project of Compose whose services ask for exclusive CPUs; on one engine."""

    def __init__(self, engine: PrivateEngine, workloads: Containers, folder: Path) -> None:
        self._engine = engine
        self._workloads = workloads
        self._file = folder / "compose.yaml"

    def write(self, *names: str, **more: str) -> None:
        """Write the file, with these services; `more` are further keys of each."""
        service = {
            "image": self._workloads.image,
            "command": list(SLEEP),
            "network_mode": "none",
            "labels": {"cpuset.exclusive": str(SIZE)},
            "stop_grace_period": "1s",
        } | more
        # JSON is YAML.
        self._file.write_text(json.dumps({"version": "3", "services": dict.fromkeys(names, service)}))

    def compose(self, *words: str) -> None:
        """Run Compose."""
        program = ("docker-compose",) if shutil.which("docker-compose") else ("docker", "compose")
        done = subprocess.run(
            [*program, "-p", self._workloads.prefix, "-f", str(self._file), *words],
            env={**os.environ, "DOCKER_HOST": f"unix://{self._engine.socket_path}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60 * PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def id(self, name: str) -> str:
        """Return the id of the only container of a service."""
        label = f"com.docker.compose.service={name}"
        [found] = self._workloads.api.ask("GET", "containers/json", all="1", filters=json.dumps({"label": [label]}))
        return str(found["Id"])


@pytest.fixture
def project(own_engine: PrivateEngine, workloads: Containers, tmp_path: Path) -> Iterator[Project]:
    """Provide a project, and remove its containers."""
    if workloads.api.is_podman:
        pytest.skip("Compose is Docker's: see `make test`")
    if not has_compose():
        pytest.skip("needs Compose: see `make vm-test`")
    made = Project(own_engine, workloads, tmp_path)
    made.write(*NAMES)
    yield made
    made.compose("down", "-t", "0")


@pytest.fixture
def full(sidecar: SidecarProcess) -> SidecarProcess:
    """Start a daemon with as many CPUs to give as the services need."""
    options = {"options": ["full-pcpus-only"]} if WHOLE else {}
    # Compose takes its time between removing a container and starting the next one.
    sidecar.configure(reserved=str(RESERVED), linger="60s", **options)
    sidecar.start()
    return sidecar


def has_compose() -> bool:
    """Return whether Compose is here, as a program or as a part of Docker's."""
    if shutil.which("docker-compose"):
        return True
    docker = shutil.which("docker")
    return docker is not None and not subprocess.run([docker, "compose", "version"], capture_output=True).returncode


def alone(sidecar: SidecarProcess, kernel: KernelView, id: str) -> CPUSet:
    """Wait until it is alone, by its status and the kernel; return its CPUs."""
    found = sidecar.until(id, lambda it: it.is_alone and it.phase == "running", "alone")
    assert kernel.once_running(id) == found.cpus
    return found.cpus


def test_services_that_fill_the_machine_keep_their_cpus_when_they_are_recreated(
    full: SidecarProcess, project: Project, kernel: KernelView
) -> None:
    """Each deployment of a new image does it: no CPU is free for the new containers before the old ones are gone."""
    project.compose("up", "-d")
    old = {name: project.id(name) for name in NAMES}
    before = {name: alone(full, kernel, id) for name, id in old.items()}
    assert not WHOLE or set(before.values()) == set(cores()[1:])
    project.compose("up", "-d", "--force-recreate")
    new = {name: project.id(name) for name in NAMES}
    assert not set(old.values()) & set(new.values())
    assert {name: alone(full, kernel, id) for name, id in new.items()} == before


def killed(project: Project, workloads: Containers, id: str) -> None:
    """Kill the container's process: its policy has the engine start it anew."""
    pid = int(workloads.api.inspect(id)["State"]["Pid"])
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: workloads.api.inspect(id)["State"]["Pid"] not in (0, pid), "the engine starts it anew")


@pytest.mark.parametrize(
    "again",
    [
        lambda project, _workloads, _id: project.compose("restart", "-t", "0"),
        lambda _project, workloads, id: workloads.api.act(id, "restart", t="0"),
        killed,
    ],
    ids=["compose restart", "docker restart", "restart: always"],
)
def test_a_service_that_was_refused_asks_again_when_it_is_restarted(
    again: Callable[[Project, Containers, str], None],
    full: SidecarProcess,
    project: Project,
    workloads: Containers,
    kernel: KernelView,
) -> None:
    """However that is done, and though nobody sees it stopped."""
    labels = {"cpuset.exclusive": str(SIZE)}
    holders = [workloads.run(f"holder{number}", labels=labels) for number in range(len(NAMES))]
    held = [alone(full, kernel, each) for each in holders]
    project.write("late", restart="always")
    project.compose("up", "-d")
    late = project.id("late")
    full.until(late, lambda it: it.refusal and it.is_settled, "refused")
    workloads.api.remove(holders[0])
    eventually(lambda: len(full.status().exclusive) < sum(len(each) for each in held), "its CPUs are free")
    again(project, workloads, late)
    assert alone(full, kernel, late) == held[0]
