"""CPUs of a real machine go offline beside containers with more than their floors, or with rules on nodes and cores.

And a change of policy, which takes CPUs as well. Written for the machine of `make vm-test`: two nodes, each with two
cores of two threads. Only with permission (CPUSET_TESTS_OFFLINE=1).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.rights import MAY_OFFLINE, bring_online, take_offline
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import PATIENCE

ALL = online()
_CPU = Path("/sys/devices/system/cpu")


def core(cpu: int) -> CPUSet:
    """Return all threads of the core of a CPU that is online."""
    return CPUSet.parse((_CPU / f"cpu{cpu}/topology/thread_siblings_list").read_text())


def nodes() -> list[CPUSet]:
    """Return the CPUs of each node that are online."""
    return [CPUSet.parse(each.read_text()) for each in Path("/sys/devices/system/node").glob("node[0-9]*/cpulist")]


pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(60 * PATIENCE),
    pytest.mark.skipif(
        not MAY_OFFLINE,
        reason="needs CPUs to take offline (CPUSET_TESTS_OFFLINE=1): see `make vm-test`",
    ),
    pytest.mark.skipif(
        len(ALL) != 8 or any(len(core(cpu)) != 2 for cpu in ALL) or len(nodes()) != 2,
        reason="needs two nodes of two cores of two threads: see `make vm-test`",
    ),
]


@pytest.fixture(autouse=True)
def whole() -> Iterator[None]:
    """Bring all CPUs of the machine back afterwards."""
    yield
    bring_online(ALL - online())


class Told:
    """A daemon with these settings, and what it and the kernel say of containers by name."""

    def __init__(self, sidecar: SidecarProcess, workloads: Containers, reserved: CPUSet, **settings: str) -> None:
        sidecar.configure(reserved=str(reserved), reconcile_period="60m", linger="5m", cooldown="0s", **settings)
        sidecar.start()
        self.sidecar = sidecar
        self._workloads = workloads
        self._kernel = KernelView()
        self._ids: dict[str, str] = {}

    def runs(self, name: str, count: int, **labels: str) -> None:
        """Run a container that asks for so many CPUs."""
        wish = {"cpuset.exclusive": str(count)} | {f"cpuset.{key}": said for key, said in labels.items()}
        self._ids[name] = self._workloads.run(name, labels=wish)

    def has(self, name: str, count: int) -> CPUSet:
        """Wait until a container is alone on so many CPUs that are online; return them, as the kernel has them."""

        def is_there() -> bool:
            told = self.sidecar.container(self._ids[name])
            seen = self._kernel.allowed(self._ids[name])
            return told is not None and told.is_alone and told.cpus == seen <= online() and len(seen) == count

        self.sidecar.until(self._ids[name], lambda _: is_there(), f"{name} is alone on {count}")
        return self._kernel.allowed(self._ids[name])

    def original(self, name: str) -> CPUSet:
        """Return what a container is told to have been granted first."""
        found = self.sidecar.projection(self._ids[name])
        assert found is not None
        return found.original

    def shares(self, name: str) -> str:
        """Wait until a container was refused, and is in the pool; return the reason."""
        found = self.sidecar.until(
            self._ids[name], lambda it: it.sharing is SharingStatus.SHARED and it.is_settled, f"{name} shares"
        )
        return found.refusal


def dynamic(sidecar: SidecarProcess, workloads: Containers, reserved: CPUSet) -> Told:
    return Told(sidecar, workloads, reserved, policy="dynamic", grace="2s")


def test_a_floor_that_lost_a_cpu_is_completed_from_what_another_has_above_its_own(
    sidecar: SidecarProcess, workloads: Containers
) -> None:
    """It keeps the other one; the CPU that is back goes to whoever has room above its floor."""
    told = dynamic(sidecar, workloads, core(min(ALL)))
    told.runs("batch", 1, max="32")
    told.has("batch", 6)
    told.runs("fixed", 2)
    before, rest = told.has("fixed", 2), told.has("batch", 4)
    gone = CPUSet.of(max(before))
    take_offline(gone)
    after = told.has("fixed", 2)
    assert before - gone <= after <= before - gone | rest
    assert told.has("batch", 3) == rest - after
    bring_online(gone)
    assert told.has("batch", 4) == rest - after | gone
    assert told.has("fixed", 2) == after


def test_a_bystander_keeps_its_cpus_when_another_container_has_some_to_spare(
    sidecar: SidecarProcess, workloads: Containers
) -> None:
    """The one with CPUs above its floor gives one up, and no other container moves."""
    told = dynamic(sidecar, workloads, core(min(ALL)))
    told.runs("loser", 2)
    loser = told.has("loser", 2)
    told.runs("bystander", 2)
    bystander = told.has("bystander", 2)
    told.runs("fill", 1, max="8")
    fill = told.has("fill", 2)
    gone = CPUSet.of(max(loser))
    take_offline(gone)
    after = told.has("loser", 2)
    assert loser - gone <= after <= loser - gone | fill
    assert told.has("bystander", 2) == bystander
    assert told.has("fill", 1) == fill - after


@pytest.mark.parametrize("options", ["", "full-pcpus-only"])
def test_one_node_is_one_node_or_a_refusal(options: str, sidecar: SidecarProcess, workloads: Containers) -> None:
    """When its node is too small it shares, with the reason, and gets its node again with the CPU."""
    told = Told(sidecar, workloads, CPUSet.of(min(ALL)), policy="static")
    told.runs("near", 4, numa="single", **({"options": options} if options else {}))
    before = told.has("near", 4)
    assert before in nodes()
    gone = CPUSet.of(max(before))
    take_offline(gone)
    assert "on one NUMA node" in told.shares("near")
    bring_online(gone)
    assert told.has("near", 4) == before


def test_a_whole_core_is_replaced_by_a_whole_core(sidecar: SidecarProcess, workloads: Containers) -> None:
    """No other container gets a thread beside it."""
    told = Told(sidecar, workloads, core(min(ALL)), policy="static")
    told.runs("whole", 2, options="full-pcpus-only")
    before = told.has("whole", 2)
    assert before == core(min(before))
    take_offline(CPUSet.of(max(before)))
    after = told.has("whole", 2)
    assert after.isdisjoint(before)
    assert after == core(min(after))


def test_a_change_to_fixed_sizes_takes_no_original_cpu(sidecar: SidecarProcess, workloads: Containers) -> None:
    """What one gained goes to another that is below its size; what it was first granted stays."""
    told = dynamic(sidecar, workloads, CPUSet.of(min(ALL)))
    told.runs("small", 1, max="4")
    told.has("small", 4)
    told.runs("large", 4, min="2")
    told.has("large", 4)
    told.runs("late", 2)
    late = told.has("late", 2)
    small, large = told.has("small", 2), told.has("large", 3)
    original = told.original("small")
    assert len(original) == 1
    assert original <= small
    sidecar.configure(policy="static")
    sidecar.reload()
    assert told.has("small", 1) == original
    assert told.has("large", 4) == large | (small - original)
    assert told.has("late", 2) == late
    assert told.original("small") == original
