"""What only a hand on files has: removed watches, lost events, files that cannot be written, limits, crun's scopes."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupClosed, CgroupGone
from sidecar.hand import cgroup_hand
from sidecar.hand.cgroup_hand import CgroupHand
from sidecar.hand.enforcing import MOST_ANSWERS
from sidecar.hand.libc_calls import IN_Q_OVERFLOW, InotifyEvent, Queue
from sidecar.hand.standing_answers import StandingAnswers
from sidecar.ports import (
    GroupBorn,
    GroupOverwritten,
    GroupStuck,
    GroupWritten,
    NewsLost,
    ParentsChanged,
    ParentWritten,
)
from state.cpuset import EMPTY, CPUSet
from tests.support.hand.stages import FileStage, news_until, until, v1_stage, v2_stage
from tests.support.keys import docker

ONE, TWO = "a" * 64, "b" * 64
POOL, OWN, BOTH = CPUSet.of(0), CPUSet.of(1), CPUSet.of(0, 1)
ANSWERS = Answers(others=POOL, own={docker(TWO): OWN}, owned=OWN)


@pytest.fixture(params=["", "with the reflex"])
def library(request: pytest.FixtureRequest, reflex: str | None) -> str | None:
    """Return the compiled reflex, and None for the watcher alone."""
    if request.param and reflex is None:
        pytest.skip("needs a C compiler")
    return reflex if request.param else None


@pytest.fixture
def v1(tmp_path: Path, library: str | None) -> Iterator[FileStage]:
    """Yield the kernel's cpusets with Docker's parent, and a hand that holds the answers."""
    with v1_stage(tmp_path, library) as stage:
        stage.make("/docker")
        stage.begin()
        stage.hand.hold(ANSWERS)
        yield stage


@pytest.fixture
def v2(tmp_path: Path, library: str | None) -> Iterator[FileStage]:
    """Yield a plain tree with the parent of systemd's engines, and a hand that holds the answers."""
    with v2_stage(tmp_path, library) as stage:
        stage.make("/machine.slice")
        stage.begin()
        stage.hand.hold(ANSWERS)
        yield stage


def at(id: str) -> str:
    """Return the path of one of Docker's containers."""
    return f"/docker/{id}"


def view_of(id: str) -> ContainerView:
    """Return a live container with this id."""
    return ContainerView(engine="docker", id=id, name="c", phase=Phase.RUNNING)


def theirs(stage: FileStage, id: str) -> list[bytes]:
    """Return what other programs wrote into the groups of a container; the reflex knows of a group first."""
    return [each.theirs for each in stage.hand._table.by_id.get(id, ())]


def watches(stage: FileStage) -> int:
    """Return how many watches the kernel keeps for the hand."""
    queue = stage.hand._queue
    text = Path(f"/proc/self/fdinfo/{getattr(queue, '_events', queue.fd)}").read_text()
    return len(re.findall(r"^inotify wd:", text, re.MULTILINE))


def test_groups_that_come_and_go_leave_no_watch(v1: FileStage) -> None:
    """The kernel keeps watches of removed cgroups until they are removed themselves."""
    before = watches(v1)
    for number in range(100):
        v1.make(at(f"{number:064x}"))
        v1.remove(at(f"{number:064x}"))
    until(lambda: watches(v1) == before)
    assert not v1.hand._table.by_id
    assert not v1.hand._table.by_watch


def test_a_parent_that_is_removed_and_made_again_is_watched_again(v1: FileStage) -> None:
    v1.remove("/docker")
    until(lambda: v1.hand.parents == ())
    v1.make("/docker")
    v1.make(at(ONE))
    until(lambda: v1.cpus(at(ONE)) == "0")


def test_a_write_of_a_parents_own_cpuset_is_told(v2: FileStage) -> None:
    """As by `systemctl set-property`: all below may have other CPUs, and no file of theirs changes."""
    v2.overwrite("/machine.slice", "0")
    news_until(v2.hand, lambda each: each == ParentWritten("/machine.slice"))


def test_after_lost_events_the_tree_is_read(v1: FileStage) -> None:
    """Births, ends, restarts and foreign writes that were not heard of are found."""
    v1.make(at(ONE))
    v1.make(at(TWO))
    until(lambda: [v1.cpus(at(ONE)), v1.cpus(at(TWO))] == ["0", "1"])
    v1.hand.write(view_of(ONE), Update(cpus=OWN))
    with v1.hand._lock:
        v1.remove(at(ONE))
        v1.make(at(ONE))
        v1.make(at("c" * 64))
        v1.overwrite(at(TWO), "0-1")
        v1.hand._take_other(InotifyEvent(-1, IN_Q_OVERFLOW, b""), 1.0)
        found = [v1.cpus(at(id)) for id in (ONE, TWO, "c" * 64)]
    assert found == ["0", "1", "0"]
    assert NewsLost() in news_until(v1.hand, lambda each: isinstance(each, NewsLost))


def test_newborns_that_cannot_be_written_are_reported_with_all_their_cpus(v2: FileStage, tmp_path: Path) -> None:
    """No owner may enter these CPUs before they have left."""
    path = f"/machine.slice/docker-{ONE}.scope"
    v2.make(path)
    until(lambda: v2.cpus(path) == "0")
    news_until(v2.hand, lambda each: isinstance(each, GroupBorn))
    cpus = v2.root / path[1:] / "cpuset.cpus"
    (v2.root / path[1:] / "cpuset.cpus.effective").write_text("0-1\n")
    cpus.unlink()
    cpus.mkdir()
    assert v2.hand.hold(Answers(others=OWN)).stuck == BOTH
    cpus.rmdir()
    # At once with its line: the hand may write it in the same moment.
    whole = tmp_path / "cpuset.cpus"
    whole.write_text("\n")
    whole.rename(cpus)
    until(lambda: v2.cpus(path) == "1")


def test_a_foreign_write_that_cannot_be_put_right_is_reported(v1: FileStage) -> None:
    """Nothing else tells that a newborn is on an owner's CPU: answers that are held again show where."""
    if not v1.hand._queue.is_passive:
        pytest.skip("the reflex writes at once: its failures come to the watcher, which is tested without it")
    v1.make(at(ONE))
    until(lambda: v1.cpus(at(ONE)) == "0")
    with v1.hand._lock:
        for cpus in ("0-1", "1"):
            v1.overwrite(at(ONE), cpus)
        # It cannot have what the group above lacks.
        v1.overwrite("/docker", "1")
    news = news_until(v1.hand, lambda each: isinstance(each, GroupStuck))
    assert [each.path.endswith(at(ONE)) for each in news if isinstance(each, GroupStuck)] == [True]
    assert v1.hand.hold(ANSWERS).stuck == OWN


def test_what_cannot_be_given_back_at_once_is_tried_again_and_told(v1: FileStage) -> None:
    """It is left alone, and nothing else would show that it is no longer where the hand had put it."""
    v1.make(at(ONE))
    until(lambda: v1.cpus(at(ONE)) == "0")
    v1.overwrite(at(ONE), "0-1")
    until(lambda: v1.cpus(at(ONE)) == "0")
    v1.overwrite("/docker", "0")
    assert v1.hand.hold(Answers()).stuck == POOL, "where it is as yet"
    assert v1.cpus(at(ONE)) == "0", "it cannot have what the group above lacks"
    v1.overwrite("/docker", "0-1")
    news_until(v1.hand, lambda each: each == GroupWritten(ONE))
    assert v1.cpus(at(ONE)) == "0-1"


def test_limits_and_memory_nodes_are_written_with_the_cpus(v1: FileStage) -> None:
    limits = v1.cgroup / "cpu" / "docker"
    limits.mkdir()
    (limits / ONE).mkdir()
    v1.make(at(ONE))
    v1.hand.write(view_of(ONE), Update(cpus=POOL, mems="0", cpu_quota=50_000))
    assert (limits / ONE / "cpu.cfs_quota_us").read_text() == "50000\n"
    v1.hand.write(view_of(ONE), Update(cpus=POOL, nano_cpus=1_500_000_000))
    assert (limits / ONE / "cpu.cfs_quota_us").read_text() == "150000\n"
    v1.hand.write(view_of(ONE), Update(cpus=POOL, cpu_quota=-1))
    assert (limits / ONE / "cpu.cfs_quota_us").read_text() == "-1\n"


def test_on_v2_limits_lie_beside_the_cpus(v2: FileStage) -> None:
    path = f"/machine.slice/libpod-{ONE}.scope"
    v2.make(path)
    until(lambda: v2.cpus(path) == "0")
    for update, text in (
        (Update(cpus=OWN, cpu_quota=-1), "max"),
        (Update(cpus=OWN, nano_cpus=2_000_000_000), "200000"),
    ):
        (v2.root / path[1:] / "cpu.max").write_text("max 100000\n")
        assert v2.hand.write(view_of(ONE), update) == OWN
        assert (v2.root / path[1:] / "cpu.max").read_text().partition("\n")[0] == text


def test_cruns_group_within_a_scope_has_what_the_scope_has(v2: FileStage) -> None:
    """A set that crun writes there would otherwise confine the container further, or let it fall back."""
    path = f"/machine.slice/libpod-{TWO}.scope"
    v2.make(path)
    until(lambda: v2.cpus(path) == "1")
    v2.make(f"{path}/container")
    until(lambda: v2.cpus(f"{path}/container") == "1")
    assert v2.hand.write(view_of(TWO), Update(cpus=POOL)) == POOL
    assert v2.cpus(path) == v2.cpus(f"{path}/container") == "0"
    v2.overwrite(f"{path}/container", "0-1")
    until(lambda: v2.cpus(f"{path}/container") == "0")
    v2.remove(f"{path}/container")
    v2.remove(path)
    until(lambda: not v2.hand._table.by_id)


def test_a_file_that_appears_late_is_written_then(v2: FileStage) -> None:
    """The engine enables the controller for a parent after it has made the group."""
    group = v2.root / "machine.slice" / f"libpod-{ONE}.scope"
    group.mkdir()
    news_until(v2.hand, lambda each: isinstance(each, GroupBorn) and each.cpus is None)
    (group / "cpuset.cpus").write_text("\n")
    until(lambda: (group / "cpuset.cpus").read_text() == "0\n")


def test_without_watches_a_newborn_is_written_all_the_same(v1: FileStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again while its runtime may write it."""

    def none_left(queue: Queue, path: bytes, mask: int) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    if not v1.hand._queue.is_passive:
        pytest.skip("the reflex has watches of its own")
    monkeypatch.setattr(Queue, "watch", none_left)
    v1.make(at(ONE))
    until(lambda: v1.cpus(at(ONE)) == "0")
    v1.overwrite(at(ONE), "0-1")
    until(lambda: v1.cpus(at(ONE)) == "0")


def test_a_flood_of_foreign_writes_is_answered_at_a_bounded_rate(v1: FileStage) -> None:
    """It ends with the expected CPUs, and is reported once in a second with its number."""
    v1.make(at(ONE))
    until(lambda: v1.cpus(at(ONE)) == "0")
    v1.grow_older()
    until(lambda: ONE in v1.hand._table.by_id)
    group = v1.hand._table.by_id[ONE][0]
    fd = os.open(v1.root / at(ONE)[1:] / "cpuset.cpus", os.O_WRONLY)
    rested, began = False, time.monotonic()
    for _ in range(40 * MOST_ANSWERS):
        os.write(fd, b"0-1\n")
        rested = rested or group.watch < 0
    os.close(fd)
    until(lambda: v1.cpus(at(ONE)) == "0" and group.watch >= 0)
    news = news_until(v1.hand, lambda each: isinstance(each, GroupOverwritten))
    assert [type(each) for each in news].count(GroupOverwritten) <= 2 + time.monotonic() - began
    assert rested or group.answers < MOST_ANSWERS


def test_a_group_that_is_gone_while_it_is_written_is_gone(v1: FileStage) -> None:
    v1.make(at(ONE))
    until(lambda: v1.cpus(at(ONE)) == "0")
    v1.remove(at(ONE))
    with pytest.raises(CgroupGone):
        v1.hand.write(view_of(ONE), Update(cpus=POOL))


def test_a_newborn_that_is_let_go_before_it_was_heard_of_gets_its_parents_cpus(v1: FileStage) -> None:
    """Whatever the reflex has written meanwhile is no wish of the runtime's."""
    with v1.hand._lock:
        v1.make(at(ONE))
        v1.hand._queue.drain()
        v1.hand._enforcer.hold(StandingAnswers(Answers()))
        v1.hand._take_all(1.0)
        for group in v1.hand._table.groups():
            v1.hand._enforcer.rewrite(group, 1.0)
    assert v1.cpus(at(ONE)) == "0-1"


def test_thousands_of_groups_change_their_answer_in_one_call(v2: FileStage) -> None:
    """Nothing is read of those that have it already."""
    for number in range(300):
        v2.make(f"/machine.slice/docker-{number:064x}.scope")
    last = f"/machine.slice/docker-{299:064x}.scope"
    until(lambda: v2.cpus(last) == "0")
    assert v2.hand.hold(Answers(others=OWN)).stuck == EMPTY
    assert {v2.cpus(f"/machine.slice/docker-{number:064x}.scope") for number in range(300)} == {"1"}


def test_a_parent_has_one_hand(v1: FileStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one watches it once the first has ended, and takes up what is there by then."""
    monkeypatch.setattr(cgroup_hand, "TAKEN_SECONDS", 0.01)
    v1.make(at(ONE))
    with closing(CgroupHand.open(None, cgroup=v1.cgroup)) as second:
        assert (second.parents, second.taken) == ((), ("/docker",))
        assert second.hold(Answers(others=BOTH)).parents == ()
        until(lambda: v1.cpus(at(ONE)) == "0")
        with pytest.raises(CgroupGone):
            second.write(view_of(ONE), Update(cpus=BOTH))
        v1.close()
        news_until(second, lambda each: each == ParentsChanged(("/docker",)))
        assert second.taken == ()
        assert second.write(view_of(ONE), Update(cpus=BOTH)) == BOTH


def test_a_default_that_is_not_the_engines_is_left_to_others(v1: FileStage) -> None:
    """Its containers are found elsewhere."""
    v1.make("/lane")
    v1.hand.hold(ANSWERS, home=("/lane",))
    assert v1.hand.parents == ("/lane",)
    with closing(CgroupHand.open(None, cgroup=v1.cgroup)) as other:
        assert other.parents == ("/docker",)


def test_an_engines_own_parent_is_watched_beside_the_defaults_of_others(v1: FileStage) -> None:
    """What is born below it is a container's own, as below a default: not a stranger with its name."""
    v1.make("/lane")
    v1.hand.hold(ANSWERS, home=("/lane",), keeps_defaults=True)
    assert v1.hand.parents == ("/docker", "/lane")
    v1.make(f"/lane/{TWO}")
    until(lambda: v1.cpus(f"/lane/{TWO}") == str(OWN))
    v1.make(f"/docker/{ONE}")
    until(lambda: v1.cpus(f"/docker/{ONE}") == str(POOL))


def test_a_parent_that_is_told_is_watched_in_place_of_the_defaults(v1: FileStage) -> None:
    """All below it is the engine's, as below its default."""
    v1.make("/lane")
    with closing(CgroupHand.open(None, "docker", "/lane", cgroup=v1.cgroup)) as hand:
        assert (hand.parents, hand.home, hand.taken) == (("/lane",), ("/lane",), ())
        hand.hold(ANSWERS)
        v1.make("/lane/step")
        until(lambda: v1.cpus("/lane/step") == "0")


def test_on_v2_a_pin_that_the_parent_lacks_keeps_no_owners_cpus(v2: FileStage) -> None:
    """The kernel takes the pin, and runs the group on the parent's CPUs: a found one leaves those of owners."""
    v2.hand.close()
    found, newborn = f"/machine.slice/libpod-{ONE}.scope", f"/machine.slice/libpod-{'c' * 64}.scope"
    above = v2.root / "machine.slice" / "cpuset.cpus.effective"
    above.write_text("0-2\n")
    v2.make(found)
    v2.overwrite(found, "3")
    v2.begin()
    v2.hand.hold(ANSWERS)
    assert v2.cpus(found) == "0,2"
    v2.make(newborn)
    until(lambda: v2.cpus(newborn) == "0")
    v2.overwrite(newborn, "3")
    until(lambda: theirs(v2, "c" * 64) == [b"3"])
    until(lambda: v2.cpus(newborn) == "0")
    above.write_text("0-3\n")
    v2.hand.hold(Answers(others=POOL, owned=OWN))
    assert [v2.cpus(found), v2.cpus(newborn)] == ["3", "3"]


def test_a_pin_whose_cpus_cannot_be_had_falls_back_to_the_pool(v1: FileStage) -> None:
    """Version 1 refuses CPUs that the parent lacks: they went offline."""
    v1.hand.hold(Answers(others=POOL))
    v1.make(at(ONE))
    until(lambda: v1.cpus(at(ONE)) == "0")
    v1.overwrite(at(ONE), "1")
    until(lambda: theirs(v1, ONE) == [b"1"])
    v1.hand._table.by_id[ONE][0].theirs = b"700"
    v1.hand.hold(Answers(others=BOTH))
    assert v1.cpus(at(ONE)) == "0-1"


def test_without_a_hierarchy_there_is_no_hand(tmp_path: Path) -> None:
    with pytest.raises(CgroupClosed, match="no cgroup hierarchy"):
        CgroupHand.open(None, cgroup=tmp_path)


def test_without_the_right_to_write_there_is_no_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount that is read-only, for instance: the engine alone changes cpusets then."""
    (tmp_path / "cgroup.controllers").write_text("cpuset\n")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(CgroupClosed, match="cannot be written"):
        CgroupHand.open(None, cgroup=tmp_path)


def test_no_group_is_changed_by_the_end_of_a_hand(v1: FileStage) -> None:
    v1.make(at(TWO))
    until(lambda: v1.cpus(at(TWO)) == "1")
    v1.hand.close()
    v1.hand.close()
    v1.make(at(ONE))
    assert (v1.cpus(at(TWO)), v1.cpus(at(ONE))) == ("1", "0-1")
