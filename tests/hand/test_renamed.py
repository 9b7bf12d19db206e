"""Groups that are renamed, as cgroup v1 allows within a parent: gone under one name, and born under another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.orders import Answers, Update
from sidecar.failures import CgroupGone
from sidecar.hand.libc_calls import IN_Q_OVERFLOW, InotifyEvent
from sidecar.ports import GroupBorn, GroupGone
from state.cpuset import CPUSet
from tests.support.hand.stages import FileStage, news_until, until, v1_stage
from tests.support.keys import docker

ONE, TWO, INSIDE = "a" * 64, "b" * 64, "c" * 64
POOL, OWN = CPUSet.of(0), CPUSet.of(1)
ANSWERS = Answers(others=POOL, own={docker(TWO): OWN}, owned=OWN)


@pytest.fixture(params=["", "with the reflex"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, reflex: str | None) -> Iterator[FileStage]:
    """Yield the kernel's cpusets with the parents of both drivers, and a hand that holds the answers."""
    if request.param and reflex is None:
        pytest.skip("needs a C compiler")
    with v1_stage(tmp_path, reflex if request.param else None) as opened:
        opened.make("/docker")
        opened.make("/system.slice")
        opened.begin()
        opened.hand.hold(ANSWERS)
        yield opened


@pytest.fixture(params=["/docker/{}", "/system.slice/docker-{}.scope"])
def name(request: pytest.FixtureRequest) -> str:
    """Return how a driver calls a container's group."""
    return str(request.param)


def order(stage: FileStage, id: str, cpus: CPUSet) -> CPUSet:
    """Write a live container's group."""
    view = ContainerView(engine="docker", id=id, name="c", phase=Phase.RUNNING)
    return stage.hand.write(view, Update(cpus=cpus))


def rename(stage: FileStage, path: str, name: str) -> str:
    """Give a group another name; return its new path."""
    at = stage.root / path[1:]
    at.rename(at.with_name(name))
    return f"{path.rpartition('/')[0]}/{name}"


def shared(stage: FileStage, name: str, id: str = ONE) -> str:
    """Return the group of a container that an order has put into the pool."""
    stage.make(path := name.format(id))
    until(lambda: stage.cpus(path) == "0")
    assert order(stage, id, POOL) == POOL
    return path


def test_a_renamed_group_has_ended_and_one_is_born(stage: FileStage, name: str) -> None:
    path = shared(stage, name)
    moved = rename(stage, path, "foo")
    news = news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.path == moved)
    assert GroupGone(ONE, path) in news
    assert [(each.id, each.cpus) for each in news if isinstance(each, GroupBorn) and each.path == moved] == [("", POOL)]
    with pytest.raises(CgroupGone):
        order(stage, ONE, POOL)


def test_what_is_written_into_a_renamed_group_is_undone(stage: FileStage, name: str) -> None:
    """Before it was heard of, and after: its processes are a container's, whatever it is called."""
    moved = rename(stage, shared(stage, name), "foo")
    stage.overwrite(moved, "0-1")
    until(lambda: stage.cpus(moved) == "0")
    news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.path == moved)
    stage.overwrite(moved, "0-1")
    until(lambda: stage.cpus(moved) == "0")


def test_a_renamed_group_follows_the_answers(stage: FileStage, name: str) -> None:
    """No owner is told that a CPU is its own before such a group has left it."""
    moved = rename(stage, shared(stage, name), "foo")
    stage.hand.hold(Answers(others=OWN, owned=POOL))
    assert stage.cpus(moved) == "1"


def test_an_owners_group_under_another_name_is_nobodys(stage: FileStage, name: str) -> None:
    stage.make(path := name.format(TWO))
    until(lambda: stage.cpus(path) == "1")
    moved = rename(stage, path, "foo")
    until(lambda: stage.cpus(moved) == "0")


def test_a_group_that_is_renamed_back_is_its_containers_again(stage: FileStage, name: str) -> None:
    """What was written meanwhile is undone as well."""
    path = shared(stage, name)
    moved = rename(stage, path, "foo")
    stage.overwrite(moved, "0-1")
    rename(stage, moved, path.rpartition("/")[2])
    until(lambda: stage.cpus(path) == "0")
    assert order(stage, ONE, OWN) == OWN


def test_the_group_of_a_service_is_left_alone_whatever_it_is_called(stage: FileStage) -> None:
    """Beside a container's that was renamed as well."""
    rename(stage, shared(stage, "/system.slice/docker-{}.scope"), "foo")
    stage.make("/system.slice/some.service")
    moved = rename(stage, "/system.slice/some.service", "other.service")
    shared(stage, "/system.slice/docker-{}.scope", INSIDE)
    assert stage.cpus(moved) == "0-1"


def test_renamed_groups_are_found_when_events_were_lost(stage: FileStage) -> None:
    path = shared(stage, "/docker/{}")
    with stage.hand._lock:
        moved = rename(stage, path, "foo")
        stage.overwrite(moved, "0-1")
        stage.hand._take_other(InotifyEvent(-1, IN_Q_OVERFLOW, b""), 1.0)
        assert stage.cpus(moved) == "0"


def test_what_is_renamed_inside_an_owners_group_is_told(stage: FileStage) -> None:
    """A container of another engine may be called so there only afterwards."""
    stage.make(path := f"/docker/{TWO}")
    until(lambda: stage.cpus(path) == "1")
    news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and each.path == path)
    stage.make(f"{path}/sub")
    inside = rename(stage, f"{path}/sub", INSIDE)
    news_until(stage.hand, lambda each: isinstance(each, GroupBorn) and (each.path, each.inside) == (inside, TWO))
    rename(stage, inside, "sub")
    news_until(stage.hand, lambda each: each == GroupGone(INSIDE, inside, TWO))
