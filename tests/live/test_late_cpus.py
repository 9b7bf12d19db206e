"""CPUs that come online after the engine started: an engine that read them only at its start refuses them.

Docker reads the machine's CPUs when it starts (23 and later); Podman has no daemon. Only on a machine with offline CPUs
that the tests may bring online (CPUSET_TESTS_OFFLINE=1).
"""

from __future__ import annotations

import pytest

from sidecar.host.machine.sysfs import read_topology
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.rights import MAY_OFFLINE, bring_online
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import eventually

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        not MAY_OFFLINE,
        reason="needs CPUs to bring online (CPUSET_TESTS_OFFLINE=1): see `make vm-test`",
    ),
    pytest.mark.skipif(not read_topology().offline, reason="needs CPUs that are offline: see `make vm-test`"),
]


def test_an_engine_with_an_old_list_is_explained_and_a_restart_cures_it(
    own_engine: PrivateEngine, sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Until then its records lack the new CPUs, and what runs has them by the hand alone. Afterwards all have them, and
    none was restarted.
    """
    own_engine.stop()
    own_engine.start(live_restore=True)
    first, late = online(), read_topology().offline
    sidecar.configure(policy="static", reserved=str(CPUSet.of(min(first))), reconcile_period="1s")
    sidecar.start()
    plain, owner = workloads.run("plain"), workloads.run("owner", labels={"cpuset.exclusive": "1"})
    mine = sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone").cpus
    eventually(lambda: kernel.allowed(plain) == first - mine, "the pool is what is left")
    bring_online(late)
    if not workloads.api.is_podman:
        refused = sidecar.until(plain, lambda it: it.trouble, "the engine said no")
        assert "Requested CPUs are not available" in refused.trouble
        assert "restart the engine" in refused.trouble
        has_hand = (told := sidecar.status().hand) is not None and told.is_answering
        meanwhile = (first | late if has_hand else first) - mine
        eventually(lambda: kernel.allowed(plain) == meanwhile, "it has what the kernel can be told without the engine")
        recorded = workloads.api.inspect(plain)["HostConfig"]["CpusetCpus"]
        assert CPUSet.parse(recorded) == first - mine
        own_engine.stop()
        own_engine.start(live_restore=True)
    eventually(lambda: kernel.allowed(plain) == (first | late) - mine, "it has the new ones", seconds=60)
    assert not sidecar.until(plain, lambda it: it.is_settled and not it.trouble, "no trouble").trouble
