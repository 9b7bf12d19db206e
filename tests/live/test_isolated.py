"""CPUs that the kernel isolates (isolcpus): which containers are granted them."""

from __future__ import annotations

import pytest

from sidecar.host.machine.sysfs import read_topology
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import SidecarProcess

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(len(read_topology().isolated) < 2, reason="needs isolated CPUs: see `make vm-test`"),
]

ISOLATED = read_topology().isolated & online()
RESERVED = CPUSet.of(min(online() - ISOLATED))


@pytest.mark.parametrize("rule", ["prefer", "only"])
def test_exclusive_containers_are_given_isolated_cpus_and_the_pool_is_not(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView, rule: str
) -> None:
    """As many as exist; a further container gets others, or under `only` none, with the reason."""
    sidecar.configure(reserved=str(RESERVED), isolated=rule)
    sidecar.start()
    plain = workloads.run("plain")
    owner = workloads.run("owner", labels={"cpuset.exclusive": str(len(ISOLATED))})
    found = sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    assert kernel.once_running(owner) == found.cpus == ISOLATED
    further = workloads.run("further", labels={"cpuset.exclusive": "1"})
    if rule == "prefer":
        other = sidecar.until(further, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
        assert kernel.once_running(further) == other.cpus
        assert other.cpus.isdisjoint(ISOLATED)
    else:
        assert sidecar.until(further, lambda it: it.refusal, "refused").refusal
    sidecar.until_quiet()
    assert kernel.once_running(plain).isdisjoint(ISOLATED)


def test_ignored_they_are_cpus_like_any_other(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """They are granted; a container that was never pinned stays off them all the same, by the kernel's own rule."""
    sidecar.configure(reserved=str(RESERVED), isolated="ignore")
    sidecar.start()
    plain = workloads.run("plain")
    sidecar.until(plain, lambda it: it.is_settled, "settled")
    assert kernel.once_running(plain) == online() - ISOLATED
    wide = workloads.run("wide", labels={"cpuset.exclusive": str(len(online()) - 2)})
    found = sidecar.until(wide, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    assert found.cpus & ISOLATED
    assert kernel.once_running(wide) == found.cpus
