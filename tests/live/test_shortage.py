"""Refusals on a real engine, with their reasons: shortage, bad labels, limits that contradict, and quotas."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import pytest

from sidecar.status.document import SharingStatus
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online, quota_of
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually

pytestmark = pytest.mark.live

ONE = {"cpuset.exclusive": "1"}
NANO = 1_000_000_000


def limits(workloads: Containers, id: str) -> tuple[int, int, int]:
    """Return nano CPUs, quota and period, as the engine has them; for Podman the CPUs' worth that the kernel gives,
    since it keeps nothing else.
    """
    if workloads.api.is_podman:
        pid = workloads.api.inspect(id)["State"]["Pid"]
        return (round((quota_of(pid) or 0) * NANO) if pid else 0, 0, 0)
    host = workloads.api.inspect(id)["HostConfig"]
    return host["NanoCpus"], host["CpuQuota"], host["CpuPeriod"]


def throttled_to(workloads: Containers, id: str) -> float:
    """Return the CPUs' worth of time that the kernel gives a live container; infinite without a limit."""
    most = quota_of(workloads.api.inspect(id)["State"]["Pid"])
    return math.inf if most is None else most


def holder(running: SidecarProcess, workloads: Containers) -> str:
    """Run a container that has the only available CPU."""
    id = workloads.run("holder", labels=ONE)
    running.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "it has the CPU")
    return id


def test_share_on_shortage_stays_in_the_pool(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """It is refused with the reason, and not upgraded unasked when the CPU is free."""
    first = holder(running, workloads)
    second = workloads.run("second", labels=ONE)
    said = running.until(second, lambda it: it.refusal and it.is_settled, "refused and in the pool")
    assert "1 exclusive CPU" in said.refusal
    assert kernel.once_running(second) == REST
    workloads.api.remove(first)
    eventually(lambda: kernel.allowed(second) == online(), "it has the whole pool")
    eventually(lambda: not running.status().exclusive, "nobody is exclusive")
    assert running.container(second).sharing is SharingStatus.SHARED  # type: ignore[union-attr]


def test_wait_on_shortage_is_upgraded(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """It runs in the pool, and gets the CPU as soon as its holder is gone, without a restart."""
    first = holder(running, workloads)
    second = workloads.run("second", labels={**ONE, "cpuset.on-shortage": "wait"})
    running.until(second, lambda it: it.refusal and it.is_settled, "refused and in the pool")
    assert kernel.once_running(second) == REST
    before = kernel.processes(second)[0].pid
    workloads.api.remove(first)
    running.until(second, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "upgraded")
    assert kernel.allowed(second) == LAST
    assert kernel.processes(second)[0].pid == before


def test_stop_on_shortage_is_stopped(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """It prefers not to run at all: the engine is ordered to stop it, and the log gives the reason."""
    holder(running, workloads)
    second = workloads.run("second", labels={**ONE, "cpuset.on-shortage": "stop"})
    eventually(lambda: workloads.api.inspect(second)["State"]["Status"] == "exited", "stopped")
    assert not kernel.allowed(second)
    assert running.has_logged("stopping a container: its CPUs are not available")


BAD_WISHES: Final[dict[str, tuple[dict[str, str], dict[str, Any], str]]] = {
    "word": ({"cpuset.exclusive": "two"}, {}, "whole number"),
    "fraction": ({"cpuset.exclusive": "1.5"}, {}, "whole number"),
    "no-limit": ({"cpuset.exclusive": "true"}, {}, "no CPU limit"),
    "fractional-limit": ({"cpuset.exclusive": "true"}, {"NanoCpus": 3 * NANO // 2}, "fraction"),
    "contradiction": ({"cpuset.exclusive": "1"}, {"NanoCpus": 2 * NANO}, "limit"),
    "shortage": ({"cpuset.exclusive": "1", "cpuset.on-shortage": "cry"}, {}, "share, wait, stop"),
    "too-many": ({"cpuset.exclusive": str(len(online()))}, {}, "exclusive CPUs"),
}
"""Labels, limits, and a word of the reason."""


def is_told(running: SidecarProcess, id: str, why: str) -> bool:
    """Return whether its projection gives this reason."""
    told = running.projection(id)
    return told is not None and why in told.reason


def test_a_wish_that_cannot_be_met_is_refused_with_its_reason(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """It runs in the shared pool, and status and projection say why."""
    made = {name: workloads.run(name, labels=labels, **host) for name, (labels, host, _) in BAD_WISHES.items()}
    for name, id in made.items():
        said = running.until(id, lambda it: it.refusal and it.is_settled, f"{name} is refused")
        assert BAD_WISHES[name][2] in said.refusal, name
        assert kernel.once_running(id) == online(), name
        eventually(partial(is_told, running, id, said.refusal), f"{name} is told why")


def test_a_misspelt_label_is_a_warning_with_the_right_word(running: SidecarProcess, workloads: Containers) -> None:
    """It is not a demand, and it prevents nothing."""
    id = workloads.run("misspelt", labels={"cpuset.exclusiv": "1"})
    said = running.until(id, lambda it: it.warnings, "warned")
    assert "did you mean 'cpuset.exclusive'" in said.warnings[0]
    assert said.sharing is SharingStatus.SHARED


@pytest.mark.parametrize(
    ("host", "lifted"),
    [
        ({"NanoCpus": NANO}, lambda ncpu: (ncpu * NANO, 0, 0)),
        ({"CpuQuota": 100_000, "CpuPeriod": 100_000}, lambda ncpu: (0, -1, 100_000)),
    ],
    ids=["cpus", "quota"],
)
def test_a_quota_is_lifted_while_it_is_exclusive_and_put_back(
    sidecar: SidecarProcess, workloads: Containers, host: dict[str, int], lifted: object
) -> None:
    """Lifted in the way that can be undone, in the kernel first; put back when it leaves its CPUs, and by a release
    while it has them.
    """
    sidecar.start()
    before = workloads.api.ask("GET", "info")["NCPU"]
    id = workloads.run("limited", labels={"cpuset.exclusive": "true"}, **host)
    made = (host.get("NanoCpus", 0), host.get("CpuQuota", 0), host.get("CpuPeriod", 0))
    most = lifted(before)  # type: ignore[operator]
    if workloads.api.is_podman:
        made, most = (NANO, 0, 0), (before * NANO, 0, 0)
    sidecar.until(id, lambda it: it.is_alone, "alone")
    assert throttled_to(workloads, id) >= before
    eventually(lambda: limits(workloads, id) == most, "the engine has it in its record")
    workloads.api.act(id, "stop")
    if workloads.api.tells_of_the_stopped:
        eventually(lambda: limits(workloads, id) == made, "put back when it is parked")
    else:
        sidecar.until(id, lambda it: it.sharing is SharingStatus.SHARED, "parked")
        sidecar.until_quiet()
    workloads.api.act(id, "start")
    sidecar.until(id, lambda it: it.phase == "running" and it.is_alone, "alone again")
    assert throttled_to(workloads, id) >= before
    eventually(lambda: limits(workloads, id) == most, "the engine has it in its record again")
    sidecar.terminate()
    sidecar.release()
    assert limits(workloads, id) == made


def test_a_guaranteed_container_needs_no_label(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """With `opt_in = "guaranteed"` whole CPUs and a memory limit are enough; without the memory limit they are not."""
    sidecar.configure(opt_in="guaranteed")
    sidecar.start()
    burstable = workloads.run("burstable", NanoCpus=NANO)
    sidecar.until(burstable, lambda it: it.sharing is SharingStatus.SHARED and it.is_settled, "in the pool")
    guaranteed = workloads.run("guaranteed", NanoCpus=NANO, Memory=64 << 20)
    sidecar.until(guaranteed, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    assert kernel.once_running(guaranteed) == LAST
    assert kernel.once_running(burstable) == REST
