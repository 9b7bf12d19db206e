"""The quadlets of compose/podman on a machine that is the tests' own: installed as they stand, started and restarted.

Only the program comes from elsewhere: a drop-in mounts this Python and this project into the sidecar's container.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from sidecar.status.document import ContainerStatus
from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from state.errors import StateError
from tests.live import hostpython
from tests.live.containers import SLEEP
from tests.live.engineapi import PodmanApi
from tests.live.image import ensure_image
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import ROOT
from tests.live.test_systemd import systemctl
from tests.live.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(120 * PATIENCE),
    pytest.mark.skipif(
        os.environ.get("CPUSET_TESTS_UNITS") != "1", reason="needs a machine of its own: `make vm-test`"
    ),
]

SOCKET: Final = "/run/podman/podman.sock"
FOLDER: Final = Path("/etc/containers/systemd")
SIDECAR, WORKLOAD = "cpuset-sidecar.service", "workload.service"


def podman(*words: str) -> str:
    """Run the command on the machine's own containers."""
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def neighbour() -> Iterator[str]:
    """Install the images and the quadlets, and run a container of the pool; return its id."""
    if len(online()) < 4:
        pytest.skip("needs a reserved CPU, two of an owner's, and one more: see `make vm-test`")
    systemctl("start", "podman.socket")
    podman("create", "--name", "sleeper", "--network", "none", ensure_image(PodmanApi(SOCKET)), "true")
    program = json.dumps([hostpython.python(), "-m", "sidecar", "run"])
    podman("commit", "-q", "--change", f"ENTRYPOINT {program}", "sleeper", "localhost/cpuset-sidecar:local")
    podman("commit", "-q", "--change", f"CMD {json.dumps(SLEEP)}", "sleeper", "localhost/workload:local")
    podman("rm", "sleeper")
    shutil.copytree(ROOT / "compose/podman", FOLDER, dirs_exist_ok=True)
    lines = [f"Volume={each}" for each in hostpython.mounts()]
    lines += [f"Environment={key}={value}" for key, value in hostpython.environment().items()]
    drop_in = FOLDER / "cpuset-sidecar.container.d/program.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("\n".join(["[Container]", *lines, ""]))
    systemctl("daemon-reload")
    yield podman("run", "-d", "--name", "neighbour", "--network", "none", "localhost/workload:local")
    systemctl("stop", WORKLOAD, SIDECAR)
    shutil.rmtree(FOLDER)
    systemctl("daemon-reload")
    podman("rm", "-f", "-t0", "-a")


def told(name: str) -> ContainerStatus | None:
    """Return what the sidecar says of a container; its books are in a volume."""
    books = podman("volume", "inspect", "-f", "{{.Mountpoint}}", "systemd-cpuset-state")
    with suppress(StateError):
        return next((each for each in read_status(Path(books)).containers if each.name == name), None)
    return None


def told_inside() -> CPUSet | None:
    """Return what the workload reads in its own file; None while it does not run, or has none yet."""
    words = ("podman", "exec", "systemd-workload", "cat", "/run/cpus/cpuset")
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    return CPUSet.parse(done.stdout.strip()) if done.returncode == 0 else None


def settled(neighbour: str) -> CPUSet:
    """Wait until the workload is alone on two CPUs, by the kernel, told so, and in its own file; return them."""
    kernel = KernelView()

    def look() -> CPUSet | None:
        workload = told("systemd-workload")
        if workload is None or not workload.is_alone:
            return None
        mine = kernel.allowed(workload.id)
        is_right = mine == workload.cpus == told_inside() and len(mine) == 2
        return mine if is_right and kernel.allowed(neighbour) == online() - mine else None

    return eventually(look, "the workload is alone, and the neighbour is in the pool", seconds=30.0)


def test_the_shipped_quadlets_give_a_workload_its_cpus(neighbour: str) -> None:
    """Through a reload, a restart of either service, and one of Podman's: its CPUs, and what it reads of them."""
    systemctl("start", WORKLOAD)
    first = settled(neighbour)
    assert CPUSet.of(0).isdisjoint(first)
    systemctl("daemon-reload")
    assert settled(neighbour) == first
    systemctl("restart", SIDECAR)
    assert settled(neighbour) == first
    systemctl("restart", "podman.socket")
    assert settled(neighbour) == first
    systemctl("kill", "-s", "KILL", WORKLOAD)
    eventually(lambda: systemctl("show", "--value", "-p", "NRestarts", WORKLOAD) == "1", "systemd restarts it")
    settled(neighbour)
    systemctl("restart", WORKLOAD)
    settled(neighbour)
