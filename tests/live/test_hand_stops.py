"""The daemon is killed at each step of an order with two legs: books, kernel and engine agree after the next start."""

from __future__ import annotations

from typing import Final

import pytest

from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.mortal import STEPS
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(120 * PATIENCE)]

ONE: Final = {"cpuset.exclusive": "1"}


def recorded(workloads: Containers, id: str) -> CPUSet:
    """Return where the engine would start a container."""
    return CPUSet.parse(workloads.api.inspect(id)["HostConfig"]["CpusetCpus"] or str(online()))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("comes", [True, False], ids=["an owner comes", "an owner goes"])
def test_a_daemon_that_is_killed_between_the_legs_is_understood_by_the_next(
    own_engine: PrivateEngine,
    sidecar: SidecarProcess,
    workloads: Containers,
    kernel: KernelView,
    step: str,
    *,
    comes: bool,
) -> None:
    """Whatever the kernel has, and the engine has not, or the books have not: who should have the CPU has it alone."""
    # Where also a user's own sidecar sees it.
    armed, owner, usual = sidecar.folder / "armed", "", sidecar.wrapper
    sidecar.wrapper = ("env", f"STOP_AT={step}", f"STOP_IF={armed}", *usual)
    sidecar.module = "tests.live.mortal"
    sidecar.configure(hand="auto", reconcile_period="1h")
    sidecar.start()
    assert not sidecar.has_logged("the engine alone changes CPUs"), sidecar.log()
    neighbours = [workloads.run(f"neighbour-{number}") for number in range(3)]
    for each in neighbours:
        # The first look at each makes an order, and the daemon is to die at one that belongs to the owner.
        sidecar.until(each, lambda it: it.is_settled, "seen")
    if not comes:
        owner = workloads.run("owner", labels=ONE)
        sidecar.until(owner, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    sidecar.until_quiet()
    whole = sidecar.folder / "whole"
    known = [*neighbours, *([] if comes else [owner])]
    whole.write_text("".join(f"{each} {kernel.cpuset(each)}\n" for each in known))
    whole.rename(armed)
    if comes:
        owner = workloads.run("owner", labels=ONE)
    else:
        workloads.api.remove(owner)
    eventually(lambda: not sidecar.is_running, f"killed at {step}")
    if step in ("written", "recording"):
        # It died between the legs: kernel and engine disagree.
        there = [*neighbours, *([owner] if comes else [])]
        assert [each for each in there if kernel.cpuset(each) != recorded(workloads, each)]

    sidecar.wrapper, sidecar.module = usual, "sidecar"
    sidecar.start()
    sidecar.until_quiet()
    granted = {key.id: each.cpus for key, each in sidecar.books().assignments.items()}
    assert granted == ({owner: LAST} if comes else {})
    rest = REST if comes else online()
    for id, cpus in [*((each, rest) for each in neighbours), *([(owner, LAST)] if comes else [])]:
        assert kernel.allowed(id) == cpus
        if workloads.api.keeps_updates:
            eventually(lambda id=id, cpus=cpus: recorded(workloads, id) == cpus, "the engine's record follows")  # type: ignore[misc]
