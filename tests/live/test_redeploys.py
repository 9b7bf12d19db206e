"""Redeploys and restarts on a real engine: a service keeps its CPUs, and what was refused asks again at its next start.

As `docker compose up --force-recreate` does it, which the engine sees as five requests.
"""

from __future__ import annotations

import pytest

from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import eventually

pytestmark = pytest.mark.live


def role(service: str) -> dict[str, str]:
    """Return the labels that compose gives the only container of a service."""
    return {
        "com.docker.compose.project": "shop",
        "com.docker.compose.service": service,
        "com.docker.compose.container-number": "1",
    }


def recreated(workloads: Containers, old: str, name: str, labels: dict[str, str]) -> str:
    """Replace a container: the new one is created beside the old one, under another name, and gets its name later."""
    new = workloads.create(f"{old[:12]}-{name}", labels=labels)
    workloads.api.act(old, "stop", t="1")
    workloads.api.remove(old)
    workloads.api.act(new, "rename", name=f"{workloads.prefix}-{name}")
    workloads.api.act(new, "start")
    return new


def alone(sidecar: SidecarProcess, kernel: KernelView, id: str) -> CPUSet:
    """Wait until it is alone, by its status and the kernel; return its CPUs."""
    found = sidecar.until(id, lambda it: it.is_alone and it.phase == "running", "alone")
    assert kernel.once_running(id) == found.cpus
    return found.cpus


def test_services_that_fill_the_machine_are_recreated(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """No CPU is free when the new containers are created: each gets those of the one that it replaces."""
    sidecar.configure(linger="60s", reserved=str(CPUSet.of(min(online()))))
    sidecar.start()
    names = [f"service{number}" for number in range(len(online()) - 1)]
    labels = {name: {"cpuset.exclusive": "1", **role(name)} for name in names}
    ids = {name: workloads.run(name, labels=labels[name]) for name in names}
    before = {name: alone(sidecar, kernel, ids[name]) for name in names}
    assert len({str(cpus) for cpus in before.values()}) == len(names)
    ids = {name: recreated(workloads, ids[name], name, labels[name]) for name in names}
    assert {name: alone(sidecar, kernel, ids[name]) for name in names} == before


def test_a_restart_asks_again(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """The engine answers no look while it restarts a container, and nobody sees it stopped: its new start is enough."""
    holder = workloads.run("holder", labels={"cpuset.exclusive": "1"})
    assert alone(running, kernel, holder) == LAST
    second = workloads.run("second", labels={"cpuset.exclusive": "1"})
    running.until(second, lambda it: it.refusal and it.is_settled, "refused")
    workloads.api.remove(holder)
    eventually(lambda: not running.status().exclusive, "the CPU is free")
    shares = running.container(second)
    assert shares is not None
    assert shares.sharing is SharingStatus.SHARED
    workloads.api.act(second, "restart", t="0")
    assert alone(running, kernel, second) == LAST
