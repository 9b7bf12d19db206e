"""On cgroup v1, a daemon on a real engine brings back processes that fell out of their container's group.

The kernel moves them out when the group's last CPU goes offline. Here a test does what the kernel does, to its own
container and with all CPUs online: it moves the processes to the group above, and takes the group's CPUs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.host.cgroup.places import v1_hierarchy
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import allowed_of
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import eventually

pytestmark = pytest.mark.live


def group_of(pid: int) -> Path:
    """Return the cpuset group of a process; skip if there is none on v1, or it is not writable."""
    hierarchy = v1_hierarchy("/sys/fs/cgroup", "cpuset", "cpuset.cpus")
    if hierarchy is None:
        pytest.skip("this host has no cpusets on cgroup v1")
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpuset" in controllers.split(","):
            found = Path(f"{hierarchy.root}{path}")
            if not os.access(found / "cpuset.cpus", os.W_OK):
                pytest.skip(f"{found} may not be written")
            return found
    pytest.skip("the process has no cpuset group")


def allowed(pid: int) -> CPUSet:
    return allowed_of(Path(f"/proc/{pid}/status").read_text())


def lose(group: Path) -> list[str]:
    """Do what the kernel does when the group's last CPU goes offline; return the processes that were in it."""
    moved = (group / "cgroup.procs").read_text().split()
    for pid in moved:
        (group.parent / "cgroup.procs").write_text(pid)
    (group / "cpuset.cpus").write_text("\n")
    return moved


def test_an_owner_that_fell_out_of_its_group_is_brought_back(running: SidecarProcess, workloads: Containers) -> None:
    """It is found outside, given its CPUs again, and moved back with its children."""
    owner = workloads.run("owner", "sh", "-c", "sleep 3600 & sleep 3600", labels={"cpuset.exclusive": "1"})
    running.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    pid = int(workloads.api.inspect(owner)["State"]["Pid"])
    group = group_of(pid)
    eventually(lambda: len((group / "cgroup.procs").read_text().split()) > 1, "it has a child")
    # Else it may be back before anybody looks.
    running.freeze()
    eventually(lambda: not running.is_awake, "it is frozen")
    moved = lose(group)
    assert allowed(pid) != LAST
    running.thaw()
    eventually(lambda: allowed(pid) == LAST, "it is back")
    eventually(lambda: set(moved) <= set((group / "cgroup.procs").read_text().split()), "and its children")
    running.until(owner, lambda it: it.is_settled, "settled")
    assert all(allowed(int(each)) == LAST for each in moved)


def test_an_owner_that_fell_out_while_no_daemon_ran(running: SidecarProcess, workloads: Containers) -> None:
    """The next daemon finds and mends it."""
    owner = workloads.run("owner", labels={"cpuset.exclusive": "1"})
    running.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    pid = int(workloads.api.inspect(owner)["State"]["Pid"])
    group = group_of(pid)
    assert running.terminate() == 0
    lose(group)
    running.start()
    eventually(lambda: allowed(pid) == LAST, "it is back")
    running.until(owner, lambda it: it.is_settled, "settled")
