"""Orders for many groups at once, on the kernel's cpusets: with the reflex in one call, and one by one without it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupClosed, CgroupError, CgroupGone
from sidecar.hand import cgroup_hand
from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.hand.enforcing import Enforcer
from sidecar.hand.groups import WatchedGroup
from state.cpuset import CPUSet
from tests.support.hand.stages import FileStage, until

IDS = [f"{number}" * 64 for number in range(5)]
POOL, OWN, BOTH = CPUSet.of(0), CPUSet.of(1), CPUSet.of(0, 1)


@pytest.fixture
def stage(file_stage: FileStage) -> FileStage:
    """Return five containers in the pool, and a hand that has answered their births."""
    file_stage.make("/docker")
    file_stage.begin()
    file_stage.hand.hold(Answers(others=BOTH))
    for id in IDS:
        file_stage.make(at(id))
    until(lambda: all(file_stage.cpus(at(id)) == "0-1" for id in IDS))
    file_stage.grow_older()
    return file_stage


def at(id: str) -> str:
    """Return the path of one of Docker's containers."""
    return f"/docker/{id}"


def write(stage: FileStage, cpus: CPUSet, ids: Sequence[str] = IDS) -> list[CPUSet | CgroupError]:
    """Write them at once."""
    views = (ContainerView(engine="docker", id=id, name="c", phase=Phase.RUNNING) for id in ids)
    return stage.hand.write_many([(view, Update(cpus=cpus)) for view in views])


def has_reflex(stage: FileStage) -> bool:
    """Return whether groups are written in one call."""
    return not stage.hand._queue.is_passive


@pytest.fixture
def singly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of the groups that are ordered one by one."""
    found: list[str] = []
    honest = Enforcer.order

    def order(self: Enforcer, group: WatchedGroup, update: Update, now: float) -> None:
        found.append(group.id)
        honest(self, group, update, now)

    monkeypatch.setattr(Enforcer, "order", order)
    return found


def test_what_is_plain_is_one_call(stage: FileStage, singly: list[str]) -> None:
    assert write(stage, POOL) == [POOL] * 5
    assert [stage.cpus(at(id)) for id in IDS] == ["0"] * 5
    assert singly == ([] if has_reflex(stage) else IDS)


def test_more_than_are_written_without_a_pause_are_written_too(
    stage: FileStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup_hand, "MOST_AT_ONCE", 2)
    assert write(stage, POOL) == [POOL] * 5
    assert write(stage, BOTH) == [BOTH] * 5


def test_one_that_goes_in_the_midst_keeps_no_other(stage: FileStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is not heard yet: the write finds no group, or the end of one."""
    honest = CgroupHand._take_all

    def go(self: CgroupHand, now: float) -> None:
        honest(self, now)
        stage.remove(at(IDS[2]))

    with monkeypatch.context() as patch:
        patch.setattr(CgroupHand, "_take_all", go)
        found = write(stage, POOL)
    assert isinstance(found[2], CgroupGone)
    assert [each for place, each in enumerate(found) if place != 2] == [POOL] * 4


def test_what_the_kernel_refuses_is_closed_and_guarded_no_more(stage: FileStage, singly: list[str]) -> None:
    """The group above lacks that CPU (EACCES, or EINVAL): the others are written, and why is told."""
    if stage.hand._files.version == 2:
        pytest.skip("v2 refuses nothing of this kind")
    write(stage, POOL)
    stage.overwrite("/docker", "0")
    singly.clear()
    found = write(stage, OWN, IDS[:2])
    assert all(isinstance(each, CgroupClosed) and "cannot be written" in str(each) for each in found)
    assert singly == IDS[:2]
    stage.overwrite("/docker", "0-1")
    stage.overwrite(at(IDS[0]), "1")
    assert write(stage, POOL, IDS[2:]) == [POOL] * 3
    assert stage.cpus(at(IDS[0])) == "1", "it is left as it is"


def test_groups_inside_are_brought_along_one_by_one(stage: FileStage, singly: list[str]) -> None:
    if stage.hand._files.version == 2:
        pytest.skip("on v2 the kernel does that")
    stage.make(f"{at(IDS[1])}/inside")
    assert write(stage, POOL) == [POOL] * 5
    assert stage.cpus(f"{at(IDS[1])}/inside") == "0"
    assert IDS[1] in singly
    assert write(stage, BOTH) == [BOTH] * 5
    assert stage.cpus(f"{at(IDS[1])}/inside") == "0-1"


def test_an_update_with_more_than_cpus_is_no_plain_one(stage: FileStage, singly: list[str]) -> None:
    """And what the file shows that is not what was written is what is told."""
    view = ContainerView(engine="docker", id=IDS[0], name="c", phase=Phase.RUNNING)
    mems = (stage.root / "docker" / IDS[0] / "cpuset.mems").read_text().strip() or "0"
    assert stage.hand.write_many([(view, Update(cpus=POOL, mems=mems))]) == [POOL]
    assert singly == [IDS[0]]
    if stage.hand._files.version == 2:
        (stage.root / "docker" / IDS[1] / "cpuset.cpus.effective").write_text("1\n")
        assert write(stage, POOL, IDS[1:2]) == [OWN]


def test_one_that_cannot_be_opened_is_told_with_its_reason(stage: FileStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call in C leaves it, whatever the error."""
    honest = Enforcer.order

    def refuse(self: Enforcer, group: WatchedGroup, update: Update, now: float) -> None:
        if group.id == IDS[0]:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        honest(self, group, update, now)

    monkeypatch.setattr(Enforcer, "order", refuse)
    if has_reflex(stage):
        monkeypatch.setattr(stage.hand._table.by_id[IDS[0]][0], "watch", -1)
    found = write(stage, POOL)
    assert isinstance(found[0], CgroupClosed)
    assert "permission denied" in str(found[0])
    assert found[1:] == [POOL] * 4
