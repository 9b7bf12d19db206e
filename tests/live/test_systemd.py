"""What systemd does to its cgroups: daemon-reload, changed properties, and an engine that is restarted.

Engines with the systemd driver make a scope for each container and set its AllowedCPUs. systemd writes these again when
it reloads, so only what goes through the engine lasts.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually, stays

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/run/systemd/system").is_dir(), reason="needs systemd: see `make vm-test`"),
    pytest.mark.skipif(Path("/sys/fs/cgroup/cpuset").is_dir(), reason="needs cgroup v2: see `make vm-test`"),
]

ONE = {"cpuset.exclusive": "1"}


def systemctl(*words: str) -> str:
    return subprocess.run(["systemctl", *words], capture_output=True, text=True, check=True, timeout=300).stdout.strip()


def scope(workloads: Containers, id: str) -> str:
    """Return the unit of a container."""
    return f"libpod-{id}.scope" if workloads.api.is_podman else f"docker-{id}.scope"


def allowed_by_unit(unit: str) -> CPUSet:
    """Return AllowedCPUs of a unit; systemd separates ranges by blanks."""
    return CPUSet.parse(",".join(systemctl("show", "--value", "-p", "AllowedCPUs", unit).split()))


def until_in_units(workloads: Containers, owner: str, neighbour: str) -> None:
    """Wait until the engine has written their CPUs into the units: no settling waits for that."""
    units = scope(workloads, owner), scope(workloads, neighbour)
    eventually(lambda: tuple(map(allowed_by_unit, units)) == (LAST, REST), "the units have it")


@pytest.fixture
def pair(running: SidecarProcess, workloads: Containers) -> tuple[str, str]:
    """Run an owner that is alone, and a neighbour in the pool."""
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE)
    running.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    running.until_quiet()
    until_in_units(workloads, owner, neighbour)
    return owner, neighbour


def test_a_reload_moves_nobody(pair: tuple[str, str], kernel: KernelView) -> None:
    """The engine's settings are in the units, and stay: now, and at a second reload."""
    owner, neighbour = pair
    for _ in range(2):
        systemctl("daemon-reload")
        is_right = lambda: (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)  # noqa: E731
        stays(is_right, "nobody moved", seconds=1.0)


def test_reloads_during_changes(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """Arrivals and departures, with a reload after each: at rest the kernel agrees with the State."""
    neighbour = workloads.run("neighbour")
    for turn in range(3):
        owner = workloads.run(f"owner{turn}", labels=ONE)
        systemctl("daemon-reload")
        running.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
        systemctl("daemon-reload")
        # A reload before the engine's record writes what was there before.
        is_right = lambda: (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)  # noqa: B023, E731
        eventually(is_right, "both are where they should be")
        workloads.api.remove(owner)
        systemctl("daemon-reload")
        eventually(lambda: kernel.allowed(neighbour) == online(), "the pool is whole again")


def test_a_property_that_another_tool_changed_is_put_right(
    pair: tuple[str, str], workloads: Containers, kernel: KernelView
) -> None:
    """It is drift like any other, seen by the next inventory."""
    owner, _ = pair
    systemctl("set-property", "--runtime", scope(workloads, owner), f"AllowedCPUs={min(online())}")
    eventually(lambda: kernel.allowed(owner) == LAST, "it is back")
    systemctl("daemon-reload")
    eventually(lambda: kernel.allowed(owner) == LAST, "and it is there after a reload")


def test_an_engine_that_is_restarted_with_live_restore(
    own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Containers run on where they are, through a reload too; afterwards everything works as before."""
    if workloads.api.is_podman:
        pytest.skip("Podman has no daemon: containers need nobody to live on")
    own_engine.stop()
    own_engine.start(live_restore=True)
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE)
    sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    until_in_units(workloads, owner, neighbour)
    own_engine.stop()
    eventually(lambda: not sidecar.status().is_ready, "the sidecar knows")
    systemctl("daemon-reload")
    assert (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)
    own_engine.start(live_restore=True)
    eventually(lambda: sidecar.status().is_ready, "the sidecar is back")
    assert (kernel.allowed(owner), kernel.allowed(neighbour)) == (LAST, REST)
    workloads.api.remove(owner)
    eventually(lambda: kernel.allowed(neighbour) == online(), "orders are obeyed again")


def test_a_release_is_in_the_units_too(
    pair: tuple[str, str], running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """A reload long after the sidecar left does not bring its CPUs back."""
    owner, neighbour = pair
    assert running.terminate() == 0
    running.release()
    systemctl("daemon-reload")
    assert (kernel.allowed(owner), kernel.allowed(neighbour)) == (online(), online())
    assert allowed_by_unit(scope(workloads, owner)) == online()
