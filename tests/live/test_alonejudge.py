"""The judge beside live tests: it sees a projection that lies, and says nothing of one that is true."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sidecar.projection.projections import Projections
from state.cpuset import CPUSet
from state.projection import Projection, Sharing
from tests.live.alonejudge import AloneJudge, judged_alone
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually
from tests.live.watcher import Watcher
from tests.live.watching import ONE, until_alone

pytestmark = pytest.mark.live


@pytest.mark.parametrize("has_hand", [True, False], ids=["hand", "no hand"])
@pytest.mark.parametrize("where", [online(), REST], ids=["beside it", "elsewhere"])
def test_a_lie_is_seen(
    where: CPUSet, workloads: Containers, kernel: KernelView, tmp_path: Path, *, has_hand: bool
) -> None:
    """Without a daemon, a container is told to be alone. Its own threads are no neighbours, and without a hand one that
    is just seen is none.
    """
    owner = workloads.run("owner", CpusetCpus=str(LAST))
    other = workloads.run("other", CpusetCpus=str(where))
    assert (kernel.once_running(owner), kernel.once_running(other)) == (LAST, where)
    told = Projection(container=owner, name="owner", sharing=Sharing.EXCLUSIVE, cpus=LAST, alone=True)
    Projections(tmp_path, clock=time.time).write(owner, (), told)
    judge = AloneJudge(tmp_path, lambda: True, lambda: has_hand)
    judge.start()
    eventually(lambda: judge.judged > 3, "it looks again and again")
    early = list(judge.contradictions)
    if where != REST:
        eventually(lambda: judge.contradictions, "it is seen")
    judge.stop()
    assert bool(early) == (has_hand and where != REST)
    expected = [] if where == REST else [f"owner is told to be alone on {LAST}, and {other[:12]} may run on {where}"]
    assert sorted(set(judge.contradictions)) == expected


def test_what_nobody_vouches_for_is_not_judged(workloads: Containers, kernel: KernelView, tmp_path: Path) -> None:
    """The files of a daemon that is dead."""
    owner, other = workloads.run("owner"), workloads.run("other")
    assert kernel.once_running(owner) == kernel.once_running(other)
    told = Projection(container=owner, name="owner", sharing=Sharing.EXCLUSIVE, cpus=LAST, alone=True)
    Projections(tmp_path, clock=time.time).write(owner, (), told)
    judge = AloneJudge(tmp_path, lambda: False, lambda: True)
    judge.start()
    time.sleep(0.3)
    judge.stop()
    assert (judge.judged, judge.contradictions) == (0, [])


@pytest.mark.intrudes("the daemon has a planted fault: the judge of the fixture sees it as well")
@pytest.mark.parametrize("module", ["sidecar", "tests.live.boastful"], ids=["honest", "planted fault"])
def test_a_daemon_that_lies_fails_its_test(module: str, sidecar: SidecarProcess, workloads: Containers) -> None:
    """Beside the owner runs a container that is not managed, on all CPUs."""
    sidecar.configure(unmanaged=[f"{workloads.prefix}-outside"])
    sidecar.module = module
    sidecar.start()
    owner = workloads.run("owner", labels=ONE)
    sidecar.until(owner, lambda each: each.is_settled, "it has its CPU")
    judging = judged_alone(sidecar, intrudes=False)
    judge = judging.__enter__()
    workloads.run("outside")
    if module == "sidecar":
        sidecar.until(owner, lambda each: each.is_settled and not each.is_alone, "it is not alone")
        judging.__exit__(None, None, None)
        return
    eventually(lambda: judge.contradictions, "it is seen", seconds=30)
    with pytest.raises(AssertionError, match="owner is told to be alone on"):
        judging.__exit__(None, None, None)


def test_what_a_daemon_tells_is_judged(running: SidecarProcess, workloads: Containers) -> None:
    """An owner beside a daemon, as in every live test."""
    until_alone(running, workloads.run("owner", labels=ONE))
    with judged_alone(running, intrudes=False) as judge:
        eventually(lambda: judge.judged > 3, "it looks again and again")


@pytest.mark.parametrize("is_strict", [True, False], ids=["every start asks", "by events"])
def test_a_newcomer_on_an_owners_cpus_is_a_fault_where_every_start_asks(
    workloads: Containers, kernel: KernelView, tmp_path: Path, *, is_strict: bool
) -> None:
    """The watcher of a churn: it has no file yet, and elsewhere that is measured alone."""
    owner, newcomer = workloads.run("owner", CpusetCpus=str(LAST)), workloads.run("newcomer")
    assert (kernel.once_running(owner), kernel.once_running(newcomer)) == (LAST, online())
    told = Projection(container=owner, name="owner", sharing=Sharing.EXCLUSIVE, cpus=LAST, settled=True, alone=True)
    Projections(tmp_path, clock=time.time).write(owner, (), told)
    watcher = Watcher(tmp_path, is_strict=is_strict)
    watcher.watch(owner)
    watcher.watch(newcomer)
    watcher.sample()
    assert (watcher.judged, watcher.exposures) == (1, 1)
    assert [f"the newcomer {newcomer[:12]} is on an owner's CPUs" in each for each in watcher.violations] == (
        [True] if is_strict else []
    )
