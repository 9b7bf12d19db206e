"""On a real engine: the effective CPUs that are read are those of the container's own processes."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.host.cgroup.host_kernel import HostKernel, find_hierarchy
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.waiting import PATIENCE

pytestmark = pytest.mark.live


def allowed(pid: int) -> CPUSet:
    """Return Cpus_allowed_list of a process of the host."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    assert found
    return CPUSet.parse(found[1])


def seen(containers: Containers, id: str) -> ContainerView:
    """Return a look at a running container, as the engine reports it."""
    told = containers.api.inspect(id)
    return ContainerView(
        id=id,
        name=told["Name"].lstrip("/"),
        phase=Phase(told["State"]["Status"]),
        pid=told["State"]["Pid"],
        cgroup_parent=told["HostConfig"]["CgroupParent"],
    )


@pytest.fixture(autouse=True)
def hierarchy() -> None:
    if find_hierarchy() is None:
        pytest.skip("no cgroup hierarchy with cpusets is visible here")


@pytest.mark.parametrize("cpuset", ["", "0"])
def test_effective_cpus_are_those_of_its_process(containers: Containers, cpuset: str) -> None:
    """Cpus_allowed_list of the first process, before and after an update."""
    id = containers.run("effective", CpusetCpus=cpuset)
    view = seen(containers, id)
    kernel = HostKernel()
    assert kernel.effective_cpus(view) == allowed(view.pid)
    last = list(allowed(1))[-1]
    containers.api.update(id, CpusetCpus=str(last))
    assert kernel.effective_cpus(view) == allowed(view.pid) == CPUSet.of(last)


def test_a_removed_container_is_nowhere(containers: Containers) -> None:
    """The remembered path is gone, and the answer is None, even if the engine's report is late."""
    view = seen(containers, containers.run("brief"))
    kernel = HostKernel()
    assert kernel.effective_cpus(view) is not None
    containers.remove_all()
    assert kernel.effective_cpus(view) is None


def test_a_remembered_path_is_read_fast(containers: Containers) -> None:
    """Reading is far below the cost of an order, so that every order can be verified: 50 microseconds at the median."""
    view = seen(containers, containers.run("fast"))
    kernel = HostKernel()
    kernel.effective_cpus(view)
    times = []
    for _ in range(500):
        began = time.perf_counter()
        kernel.effective_cpus(view)
        times.append(time.perf_counter() - began)
    assert sorted(times)[250] < 50e-6 * PATIENCE
