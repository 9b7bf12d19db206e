"""The announcement of leaving CPUs: how long is left, and which generations acknowledge it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from sidecar.projection.projections import Projections
from state.cpuset import CPUSet
from state.errors import ProjectionError
from state.projection import Projection, Sharing, read
from tests.state.raw_inotify import RawInotify

A, B = "a" * 64, "b" * 64
TWO, THREE, BOTH = CPUSet.of(2), CPUSet.of(3), CPUSet.of(2, 3)


class Root:
    """A root of projections on a clock that the test moves; `again` is the next daemon on the same files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 100.0
        self.again()

    def again(self) -> None:
        # A steady clock may begin at any value.
        self.now = 5000.0 - self.now
        self.projections = Projections(self.path, clock=lambda: 0.0, steady=lambda: self.now)

    def told(self, container: str = A) -> Projection:
        return read(self.path / "by-id" / container[:12])

    def announce(self, leaving: CPUSet, *, grace: float = 2.0, begins: bool = True, pool: str = "0") -> None:
        told = take(leaving, grace=grace, pool=pool)
        self.projections.announce(A, ["voice"], told, grace_seconds=grace if begins else None)

    def write(self, leaving: CPUSet, *, grace: float = 2.0, pool: str = "0") -> None:
        self.projections.write(A, ["voice"], take(leaving, grace=grace, pool=pool))

    def awaited(self, leaving: CPUSet) -> list[int]:
        return list(self.projections.awaited(A, leaving))


def take(leaving: CPUSet, *, grace: float = 2.0, pool: str = "0", container: str = A) -> Projection:
    return Projection(
        container=container,
        name="voice",
        policy="dynamic",
        sharing=Sharing.EXCLUSIVE,
        cpus=CPUSet.parse("1-4"),
        desired=CPUSet.parse("1-4") - leaving,
        leaving=leaving,
        deadline_seconds=grace if leaving else None,
        shared_pool=CPUSet.parse(pool),
    )


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "cpus")


# How long is left.


def test_what_is_written_in_the_middle_says_what_is_left(root: Root) -> None:
    root.announce(TWO)
    assert root.told().deadline_seconds == 2.0
    root.now += 0.75
    root.write(TWO, pool="0,7")
    assert root.told().deadline_seconds == 1.25
    root.now += 5
    root.write(TWO, pool="0,6")
    assert root.told().deadline_seconds == 0


def test_the_passing_of_time_alone_is_not_written(root: Root) -> None:
    root.announce(TWO)
    root.write(TWO)
    with RawInotify(root.path / "by-id" / A[:12]) as watcher:
        root.now += 1
        root.write(TWO)
        root.announce(TWO, begins=False)
        assert watcher.events() == []


def test_a_take_that_is_due_has_no_time_left(root: Root) -> None:
    root.announce(TWO, grace=60)
    root.write(TWO, grace=0, pool="0,7")
    assert root.told().deadline_seconds == 0
    root.write(CPUSet(), pool="0,7")
    assert root.told().deadline_seconds is None


def test_a_grace_that_begins_again_is_told_again(root: Root) -> None:
    """After a restart of the daemon nothing else is new, but the generation and the time must be."""
    root.announce(TWO)
    before = root.told()
    root.again()
    root.now += 1
    root.announce(TWO)
    told = root.told()
    assert (told.generation, told.deadline_seconds) == (before.generation + 1, 2.0)
    assert told.says_the_same_as(before)


def test_of_several_graces_the_one_that_ends_first_is_told(root: Root) -> None:
    """A further shrink has a time of its own, and CPUs that were leaving before are not kept longer."""
    root.announce(TWO)
    root.now += 1.5
    root.announce(BOTH)
    assert root.told().deadline_seconds == 0.5
    root.now += 1.0
    root.write(BOTH, pool="0,7")
    assert root.told().deadline_seconds == 1.0


def test_graces_of_several_lengths_that_begin_together_each_end_at_their_time(root: Root) -> None:
    """As after a restart: the projection has the shortest, and each take is announced with its own."""
    told = take(BOTH, grace=2.0)
    for seconds in (20.0, 2.0):
        root.projections.announce(A, ["voice"], told, grace_seconds=seconds)
    assert root.told().deadline_seconds == 2.0
    root.now += 2.5
    root.write(TWO, grace=20.0)
    assert root.told().deadline_seconds == 17.5


def test_what_is_withdrawn_in_the_middle_leaves_no_time_with_nothing_leaving(root: Root) -> None:
    root.announce(TWO)
    root.now += 0.5
    root.projections.withdraw(A, CPUSet.parse("1-3"))
    assert (root.told().leaving, root.told().deadline_seconds) == (TWO, 1.5)
    root.projections.withdraw(A, CPUSet.of(1, 3))
    assert (root.told().leaving, root.told().deadline_seconds) == (CPUSet(), None)


def test_the_time_runs_though_it_could_not_be_told(root: Root) -> None:
    """The grace begins all the same; the first successful write has the remaining time."""
    shutil.rmtree(root.path)
    root.path.write_text("a file is there")
    with pytest.raises(ProjectionError):
        root.announce(TWO)
    root.now += 1.5
    root.path.unlink()
    root.write(TWO)
    assert root.told().deadline_seconds == 0.5


# What acknowledges.


def test_every_generation_that_told_of_it_acknowledges(root: Root) -> None:
    """Also one from before another change; none from before the take, and none that was never written."""
    root.write(CPUSet())
    assert root.awaited(CPUSet()) == []
    root.announce(TWO)
    assert root.awaited(TWO) == [2]
    root.write(TWO, pool="0,7")
    root.write(TWO, pool="0,6")
    assert root.awaited(TWO) == [2, 3, 4]
    assert root.awaited(THREE) == []


def test_a_further_shrink_asks_again_and_a_growth_does_not(root: Root) -> None:
    root.announce(TWO)
    root.announce(BOTH)
    assert root.awaited(BOTH) == [2]
    root.write(THREE)
    assert root.awaited(THREE) == [2, 3]


def test_what_was_called_off_in_between_is_asked_again(root: Root) -> None:
    """The workload may have returned to the CPU."""
    root.announce(TWO)
    root.write(CPUSet())
    assert root.awaited(TWO) == []
    root.announce(TWO)
    assert root.awaited(TWO) == [3]


def test_what_was_acknowledged_before_a_restart_still_counts(root: Root) -> None:
    root.announce(TWO)
    root.write(TWO, pool="0,7")
    root.again()
    assert root.awaited(TWO) == []
    root.announce(TWO, pool="0,7")
    assert root.awaited(TWO) == [1, 2, 3]
    root.again()
    root.announce(BOTH)
    assert root.awaited(BOTH) == [4]


def test_after_a_restart_another_take_asks_again(root: Root) -> None:
    root.announce(TWO)
    root.again()
    root.write(CPUSet())
    root.again()
    root.announce(TWO)
    assert root.awaited(TWO) == [3]


def test_a_workload_that_writes_its_own_status_does_not_make_its_acknowledgements_older(root: Root) -> None:
    """The sidecar never wrote the generation that it claims."""
    root.announce(TWO)
    root.write(CPUSet())
    lie = msgspec.structs.replace(take(BOTH), generation=1)
    (root.path / "by-id" / A[:12] / "status.json").write_bytes(msgspec.json.encode(lie, enc_hook=str))
    root.again()
    root.announce(BOTH)
    assert root.awaited(BOTH) == [3] == [root.told().generation]


def test_an_acknowledgement_of_another_container_by_the_same_name_does_not_count(root: Root) -> None:
    """`by-name/voice` passes to the next container with the acknowledgement of the last one in it."""
    for pool in ("0,5", "0,6", "0,7"):
        root.projections.write(A, ["voice"], take(CPUSet(), pool=pool))
    root.projections.announce(A, ["voice"], take(TWO), grace_seconds=2.0)
    (root.path / "by-name" / "voice" / "ack").write_text("4\n")
    root.projections.announce(B, ["voice"], take(TWO, container=B), grace_seconds=2.0)
    root.projections.remove(A)
    assert (root.path / "by-name" / "voice" / "ack").read_text() == "4\n"
    assert 4 not in root.projections.awaited(B, TWO)
    assert root.told(B).generation in root.projections.awaited(B, TWO)


def test_nothing_is_left_behind(root: Root) -> None:
    root.announce(TWO)
    assert os.listdir(root.path / ".staging") == [f"since-{A[:12]}"]
    root.write(CPUSet())
    leases = ["lease@by-id@" + A[:12], "lease@by-name@voice@by-id@" + A[:12]]
    assert sorted(os.listdir(root.path / ".staging")) == leases
    root.announce(TWO)
    root.projections.remove(A)
    assert os.listdir(root.path / ".staging") == []


def test_a_record_that_makes_no_sense_is_no_record(root: Root) -> None:
    root.announce(TWO)
    for content in (b"", b"x 2\n", b"1 z\n", b"\xff", b"1"):
        (root.path / ".staging" / f"since-{A[:12]}").write_bytes(content)
        root.again()
        root.announce(TWO)
        assert root.awaited(TWO) == [root.told().generation]


# Where it may be written.


def test_the_directories_of_a_container_are_those_that_tell_it(root: Root) -> None:
    root.announce(TWO)
    root.projections.write(B, ["voice"], take(CPUSet(), container=B))
    assert places(root, A) == {f"by-id/{A[:12]}", f"by-name/voice/by-id/{A[:12]}", "by-name/voice"}
    assert places(root, B) == {f"by-id/{B[:12]}", f"by-name/voice/by-id/{B[:12]}"}


def test_what_is_planted_on_the_way_is_left_out(root: Root, tmp_path: Path) -> None:
    root.announce(TWO)
    planted = root.path / "by-name" / "voice" / "by-id"
    shutil.rmtree(planted)
    planted.symlink_to(root.path / "by-id")
    assert places(root, A) == {f"by-id/{A[:12]}", "by-name/voice"}


def places(root: Root, container: str) -> set[str]:
    with root.projections.directories(container) as opened:
        return {os.path.relpath(os.readlink(f"/proc/self/fd/{at}"), root.path) for at in opened}
