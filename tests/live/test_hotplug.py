"""CPUs of a real machine go offline and come back under a real engine, v1 and v2: owners get others, and notice.

Only with permission (CPUSET_TESTS_OFFLINE=1), on eight CPUs or more. The inventory is slow here, so the watch notices
each change. Each story prints how long it took.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.status.document import ContainerStatus, SharingStatus
from state.cpuset import CPUSet
from state.refusal import RefusalCode
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.rights import MAY_OFFLINE, bring_online, take_offline
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import eventually
from tests.support.keys import by_id

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        not MAY_OFFLINE,
        reason="needs CPUs to take offline (CPUSET_TESTS_OFFLINE=1): see `make vm-test`",
    ),
    pytest.mark.skipif(len(online()) < 8, reason="needs eight CPUs: see `make vm-test`"),
]

ONE, TWO = {"cpuset.exclusive": "1"}, {"cpuset.exclusive": "2"}
ALL = online()
RESERVED = CPUSet.of(min(ALL))


@pytest.fixture(autouse=True)
def whole() -> Iterator[None]:
    """Bring all CPUs of the machine back afterwards."""
    yield
    bring_online(ALL - online())


@pytest.fixture
def watching(sidecar: SidecarProcess) -> SidecarProcess:
    """Return a daemon that is ready, and takes an inventory once an hour."""
    sidecar.configure(policy="static", reserved=str(RESERVED), reconcile_period="60m", linger="5m")
    sidecar.start()
    return sidecar


class Story:
    """An owner, a neighbour of the shared pool, and the kernel's view of both."""

    def __init__(self, sidecar: SidecarProcess, workloads: Containers, labels: dict[str, str]) -> None:
        self.sidecar = sidecar
        self.kernel = KernelView()
        self.neighbour = workloads.run("neighbour")
        self.owner = workloads.run("owner", labels=labels)
        self.granted = self.settled().cpus

    def settled(self, id: str = "") -> ContainerStatus:
        """Wait until the owner is alone, by its status and by the kernel's view of both."""
        owner = id or self.owner
        found = self.sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
        self.agree(owner, found.cpus)
        return found

    def agree(self, owner: str, cpus: CPUSet) -> None:
        """Wait until the kernel has the owner here, and the neighbour on the rest."""
        eventually(lambda: self.kernel.allowed(owner) == cpus, f"the owner has {cpus}")
        eventually(lambda: self.kernel.allowed(self.neighbour) == online() - cpus, f"the neighbour has not {cpus}")

    def until_replaced(self, gone: CPUSet, began: float, what: str) -> ContainerStatus:
        """Wait until the owner is alone again without these CPUs; return how long that took."""
        is_replaced = (  # noqa: E731
            lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled and it.cpus.isdisjoint(gone)
        )
        found = self.sidecar.until(self.owner, is_replaced, "alone elsewhere")
        print(f"{what}: alone again after {time.monotonic() - began:.2f} s")
        self.agree(self.owner, found.cpus)

        def is_told() -> bool:
            told = self.sidecar.projection(self.owner)
            return told is not None and (told.cpus, told.sharing.value, told.settled) == (found.cpus, "exclusive", True)

        # The file is a file of its own, and later than the status by the time that a write takes.
        eventually(is_told, f"its file says {found.cpus}")
        return found


def test_an_owner_that_loses_one_of_two_gets_another(watching: SidecarProcess, workloads: Containers) -> None:
    """It keeps the other, its file says so, and the pool is the rest."""
    story = Story(watching, workloads, TWO)
    gone = CPUSet.of(max(story.granted))
    began = take_offline(gone)
    found = story.until_replaced(gone, began, "one of two")
    assert len(found.cpus) == 2
    assert story.granted - gone <= found.cpus
    eventually(lambda: watching.has_logged("CPUs went offline"), "it is logged")


def test_an_owner_that_loses_its_only_cpu_is_not_left_among_the_others(
    watching: SidecarProcess, workloads: Containers
) -> None:
    """The kernel then lets it run on all CPUs; within moments it is alone again, and no other container shares its
    CPUs.
    """
    story = Story(watching, workloads, ONE)
    began = take_offline(story.granted)
    found = story.until_replaced(story.granted, began, "its only one")
    assert len(found.cpus) == 1


def test_cpus_that_return_are_shared_again(watching: SidecarProcess, workloads: Containers) -> None:
    """The owner stays on its replacement; the neighbour runs on the CPUs that came back, which can be granted."""
    story = Story(watching, workloads, ONE)
    gone = story.granted | CPUSet.of(max(ALL))
    began = take_offline(gone)
    found = story.until_replaced(gone, began, "its only one, and another")
    began = bring_online(gone)
    eventually(lambda: story.kernel.allowed(story.neighbour) == ALL - found.cpus, "the neighbour has them all")
    print(f"returned: shared after {time.monotonic() - began:.2f} s")
    assert story.kernel.allowed(story.owner) == found.cpus
    wide = workloads.run("wide", labels={"cpuset.exclusive": str(len(ALL) - 3)})
    alone = watching.until(wide, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    eventually(lambda: story.kernel.allowed(wide) == alone.cpus, "it has them")


def test_a_container_that_starts_on_a_cpu_that_went_gets_another(
    watching: SidecarProcess, workloads: Containers
) -> None:
    """It was stopped when its CPU went: its cpuset is written again before it starts."""
    story = Story(watching, workloads, ONE)
    workloads.api.act(story.owner, "stop")
    watching.until(story.owner, lambda it: it.phase == "exited", "stopped")
    take_offline(story.granted)
    eventually(lambda: watching.has_logged("CPUs went offline"), "it is seen")
    watching.until_quiet()
    workloads.api.act(story.owner, "start")
    found = story.settled()
    assert found.cpus.isdisjoint(story.granted)


def test_too_few_are_left_for_everybody(watching: SidecarProcess, workloads: Containers) -> None:
    """The first keeps its number; one that cannot have its CPUs shares, with the reason, and gets them back with the
    CPUs.
    """
    story = Story(watching, workloads, {"cpuset.exclusive": str(len(ALL) - 5)})
    labels = {**TWO, "cpuset.on-shortage": "wait"}
    second = workloads.run("second", labels=labels)
    held = watching.until(second, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone").cpus
    gone = online() - RESERVED - story.granted - held
    gone |= CPUSet.of(max(held))
    take_offline(gone)
    shared = watching.until(second, lambda it: it.sharing is SharingStatus.SHARED and it.is_settled, "it shares")
    assert shared.refusal
    assert by_id(watching.books().refusals)[second].refusal.code is RefusalCode.CPUS_LOST
    eventually(lambda: story.kernel.allowed(story.owner) == story.granted, "the first keeps its own")
    eventually(lambda: story.kernel.allowed(second).isdisjoint(story.granted), "the second is elsewhere")
    bring_online(gone)
    again = watching.until(second, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone again")
    assert len(again.cpus) == 2


def test_a_start_with_fewer_cpus_than_the_books_know(watching: SidecarProcess, workloads: Containers) -> None:
    """As after a boot of a smaller machine: a container that fits gets others, and the log reports what changed."""
    story = Story(watching, workloads, TWO)
    assert watching.terminate() == 0
    workloads.api.act(story.owner, "stop")
    gone = CPUSet.of(max(story.granted)) | CPUSet.of(max(ALL))
    take_offline(gone)
    watching.start()
    eventually(lambda: "the machine" in watching.log() or "moved from CPUs" in watching.log(), "it is logged")
    workloads.api.act(story.owner, "start")
    found = story.settled()
    assert len(found.cpus) == 2
    assert found.cpus.isdisjoint(gone)


def test_hyperthreads_that_are_switched_off_go_all_at_once(watching: SidecarProcess, workloads: Containers) -> None:
    """By the kernel's own switch: half of the machine goes, and comes back."""
    control = Path("/sys/devices/system/cpu/smt/control")
    if not control.exists() or control.read_text().strip() != "on":
        pytest.skip("needs hyperthreads to switch off: see `make vm-test`")
    story = Story(watching, workloads, TWO)
    try:
        began = time.monotonic()
        control.write_text("off")
        gone = ALL - online()
        assert gone
        story.until_replaced(gone, began, "hyperthreads off")
        began = time.monotonic()
    finally:
        control.write_text("on")
    mine = story.settled().cpus
    eventually(lambda: story.kernel.allowed(story.neighbour) == ALL - mine, "all others are shared again")
    print(f"hyperthreads on: shared after {time.monotonic() - began:.2f} s")
