"""Groups that a tenant closes to a hand that has no CAP_DAC_OVERRIDE: told at once, and never taken to be guarded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupClosed
from sidecar.hand.shut_groups import PAUSE_SECONDS, UNHEARD_SECONDS
from sidecar.ports import GroupShut, GroupStuck, HandNews
from state.cpuset import EMPTY, CPUSet
from tests.support.hand.fewer_rights import without_modes
from tests.support.hand.stages import FileStage, news_until, until, v1_stage
from tests.support.keys import docker

ONE, TWO, STRAY = "a" * 64, "b" * 64, "c" * 64
POOL, OWN, BOTH = CPUSet.of(0), CPUSet.of(1), CPUSet.of(0, 1)
ANSWERS = Answers(others=POOL, own={docker(ONE): POOL, docker(TWO): OWN}, owned=OWN)
AT, AT_STRAY = f"/docker/{ONE}", f"/docker/{STRAY}"
TENANT = 1234

Closing = Callable[[Path], None]


@pytest.fixture
def stage(file_stage: FileStage) -> FileStage:
    """Return a stage whose hand has answers, but not the right to pass over modes; groups are made with that right."""
    file_stage.make("/docker")
    with without_modes():
        file_stage.begin()
    held(file_stage)
    return file_stage


def held(stage: FileStage) -> CPUSet:
    """Have the hand hold the answers; return where groups are stuck."""
    with without_modes():
        return stage.hand.hold(ANSWERS).stuck


def order(stage: FileStage, cpus: CPUSet = POOL) -> CPUSet:
    """Write CPUs into the container."""
    with without_modes():
        return stage.hand.write(
            ContainerView(engine="docker", id=ONE, name="c", phase=Phase.RUNNING), Update(cpus=cpus)
        )


def closed(group: Path) -> None:
    """Take all rights to the cpuset away."""
    (group / "cpuset.cpus").chmod(0)


def read_only(group: Path) -> None:
    """Leave the right to read it."""
    (group / "cpuset.cpus").chmod(0o444)


def given_away(group: Path) -> None:
    """Give it to another user."""
    os.chown(group / "cpuset.cpus", TENANT, TENANT)


def closed_as_a_whole(group: Path) -> None:
    """Take the right to pass through the group away."""
    group.chmod(0)


def closed_above(group: Path) -> None:
    """Take the right to pass through the group above it away."""
    group.parent.chmod(0)


every_way = pytest.mark.parametrize("close", [closed, read_only, given_away, closed_as_a_whole, closed_above])


def is_shut(news: HandNews) -> bool:
    return isinstance(news, GroupShut)


def shut(stage: FileStage) -> list[GroupShut]:
    """Wait for a group that is shut, and return the news of these."""
    return [each for each in news_until(stage.hand, is_shut) if isinstance(each, GroupShut)]


@every_way
@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_write_that_can_be_undone_no_more_is_told_at_once(
    stage: FileStage, close: Closing, *, is_ordered: bool
) -> None:
    """Whether an order wrote it, or its birth was answered."""
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    if is_ordered:
        order(stage)
    close(stage.root / AT[1:])
    began = time.monotonic()
    stage.overwrite(AT, "0-1")
    [told] = shut(stage)
    assert time.monotonic() - began < 1.0, "at once, but for a busy host"
    assert (told.id, told.reason) == (ONE, f"the cgroup {stage_path(stage)} cannot be written: permission denied")
    assert stage.cpus(AT) == "0-1"


def stage_path(stage: FileStage) -> str:
    """Return the path of the container's group, as the hand names it."""
    return next(group.path for group in stage.hand._table.groups())


@every_way
def test_each_later_write_is_told_as_well(stage: FileStage, close: Closing) -> None:
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    order(stage)
    close(stage.root / AT[1:])
    for cpus in ("0-1", "0", "1"):
        stage.overwrite(AT, cpus)
        shut(stage)


def shut_parents(stage: FileStage) -> list[str]:
    """Return the parents that the hand may not enter."""
    with without_modes():
        return list(stage.hand.shut)


def test_a_parent_that_is_closed_is_told_from_a_group_that_is(stage: FileStage) -> None:
    """A birth below it cannot be answered, and is told."""
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    closed_as_a_whole(stage.root / AT[1:])
    assert shut_parents(stage) == []
    closed_above(stage.root / AT[1:])
    assert shut_parents(stage) == ["/docker"]
    stage.make(AT_STRAY)
    news_until(stage.hand, lambda each: isinstance(each, GroupStuck) and each.path == AT_STRAY)
    (stage.root / AT[1:]).parent.chmod(0o755)
    assert shut_parents(stage) == []


def test_a_loop_of_writes_is_told_ten_times_in_a_second(stage: FileStage) -> None:
    """Each has its container looked at, and none at the end goes untold."""
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    order(stage)
    closed(stage.root / AT[1:])
    began, times = time.monotonic(), 0
    while time.monotonic() < began + 5 * PAUSE_SECONDS:
        stage.overwrite(AT, ("0-1", "1")[times % 2])
        times += 1
    assert times > 20
    time.sleep(2 * PAUSE_SECONDS)
    assert 3 <= len(shut(stage)) <= 9


def test_an_order_that_meets_a_closed_group_fails_and_what_follows_is_heard(stage: FileStage) -> None:
    """It is not taken for one that is gone."""
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    order(stage)
    closed(stage.root / AT[1:])
    with pytest.raises(CgroupClosed, match="permission denied"):
        order(stage, BOTH)
    shut(stage)
    stage.overwrite(AT, "1")
    shut(stage)


def test_what_was_told_to_be_out_of_hand_is_guarded_no_more_in_this_run(stage: FileStage) -> None:
    """Also if it is opened again: an order that was under way would be a guard against the engine."""
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    order(stage)
    closed(stage.root / AT[1:])
    stage.overwrite(AT, "0-1")
    shut(stage)
    (stage.root / AT[1:] / "cpuset.cpus").chmod(0o644)
    with pytest.raises(CgroupClosed, match="permission denied"):
        order(stage)
    stage.overwrite(AT, "1")
    shut(stage)
    assert stage.cpus(AT) == "1"
    stage.remove(AT)
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    assert order(stage, BOTH) == BOTH


def test_a_closed_directory_is_not_taken_for_one_that_is_gone(stage: FileStage) -> None:
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    order(stage)
    closed_above(stage.root / AT[1:])
    with pytest.raises(CgroupClosed, match="permission denied"):
        order(stage, BOTH)


def test_one_that_is_made_again_is_shut_again(stage: FileStage) -> None:
    """A tenant may remove its own group once nothing runs in it, and make it again."""
    for _ in range(2):
        stage.make(AT)
        until(lambda: stage.cpus(AT) == "0")
        closed(stage.root / AT[1:])
        stage.overwrite(AT, "0-1")
        shut(stage)
        stage.remove(AT)


def test_what_nothing_can_tell_of_is_told_again_and_again(stage: FileStage) -> None:
    """It was closed before it could be watched."""
    if not stage.hand._queue.is_passive:
        pytest.skip("the reflex watches a birth at once")
    with stage.hand._lock:
        stage.make(AT)
        closed(stage.root / AT[1:])
    began = time.monotonic()
    for _ in range(3):
        shut(stage)
    assert time.monotonic() - began >= 1.9 * UNHEARD_SECONDS


@every_way
def test_a_stray_that_is_shut_is_told_as_stuck_where_it_is(stage: FileStage, close: Closing) -> None:
    """It has no answer of its own, so only answers that are held again tell where it may be."""
    stage.make(AT_STRAY)
    until(lambda: stage.cpus(AT_STRAY) == "0")
    group = stage.root / AT_STRAY[1:]
    close(group)
    stage.overwrite(AT_STRAY, "0-1")
    news_until(stage.hand, lambda each: isinstance(each, GroupStuck))
    assert held(stage) >= OWN
    for path, mode in ((group.parent, 0o755), (group, 0o755), (group / "cpuset.cpus", 0o644)):
        path.chmod(mode)
    os.chown(group / "cpuset.cpus", 0, 0)
    assert held(stage) == EMPTY
    assert stage.cpus(AT_STRAY) == "0"


def test_one_that_slipped_and_has_no_answer_of_its_own_any_more_is_stuck_where_it_is(stage: FileStage) -> None:
    """It is nobody's then: its container was not known any more, or is not yet."""
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    closed(stage.root / AT[1:])
    stage.overwrite(AT, "0-1")
    shut(stage)
    assert held(stage) == EMPTY
    nobodys = Answers(others=POOL, own={docker(TWO): OWN}, owned=OWN)
    with without_modes():
        assert stage.hand.hold(nobodys).stuck >= OWN
        (stage.root / AT[1:] / "cpuset.cpus").chmod(0o644)
        assert stage.hand.hold(nobodys).stuck == EMPTY
    assert stage.cpus(AT) == "0"


def test_one_that_was_let_go_may_close_its_group(stage: FileStage) -> None:
    """No answer is for it, and nothing that it does is told."""
    stage.make(AT)
    until(lambda: stage.cpus(AT) == "0")
    order(stage)
    with without_modes():
        stage.hand.hold(Answers(others=POOL, own={docker(ONE): None}, owned=OWN))
    closed(stage.root / AT[1:])
    stage.overwrite(AT, "0-1")
    stage.make(AT_STRAY)
    until(lambda: stage.cpus(AT_STRAY) == "0")
    read_only(stage.root / AT_STRAY[1:])
    stage.overwrite(AT_STRAY, "1")
    news = news_until(stage.hand, lambda each: isinstance(each, GroupShut | GroupStuck) and ONE not in str(each))
    assert not [each for each in news if is_shut(each) and ONE in str(each)]


def test_a_write_that_the_kernel_refuses_for_another_reason_shuts_no_group(tmp_path: Path) -> None:
    """On v1 it has the same error: no group has what the one above it lacks."""
    with v1_stage(tmp_path) as stage:
        stage.make("/docker")
        with without_modes():
            stage.begin()
        held(stage)
        stage.make(AT)
        until(lambda: stage.cpus(AT) == "0")
        stage.overwrite(AT, "1")
        until(lambda: stage.cpus(AT) == "0")
        with stage.hand._lock:
            stage.overwrite(AT, "1")
            stage.overwrite("/docker", "1")
        news = news_until(stage.hand, lambda each: isinstance(each, GroupStuck))
        assert not any(map(is_shut, news))
