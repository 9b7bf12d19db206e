"""What a lease promises, and that each promise has teeth: it fails with a planted fault of the daemon or a reader."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.projection import leases, projections
from sidecar.projection.directories import ProjectionTree
from sidecar.projection.projections import Projections
from sidecar.projection.voucher import Voucher
from state import lease
from state.lease import RENEW_SECONDS
from tests.projection.test_leases import OURS, A, B, told
from tests.projection.test_voucher import RUN_OUT, Bench
from tests.state.raw_inotify import RawInotify

Promise = Callable[[Bench], Awaitable[None]]
Fault = Callable[[pytest.MonkeyPatch], None]


async def it_ends_with_the_daemon(bench: Bench) -> None:
    async with bench.running():
        await trio.sleep(1)
    assert not bench.counts()


async def it_ends_with_the_decisions(bench: Bench) -> None:
    """The daemon lives, and its allocator is stuck."""
    async with bench.running():
        bench.rounds = 1
        await trio.sleep(RUN_OUT)
        assert not bench.counts()


async def it_ends_with_a_kill(bench: Bench) -> None:
    """Nothing is done any more."""
    bench.projections.write(A, ["voice"], told("2"))
    await trio.sleep(RUN_OUT)
    assert not bench.counts()


async def it_is_of_one_directory(bench: Bench) -> None:
    """A workload that may write its own directory cannot vouch for another one."""
    bench.projections.write(A, ["voice"], told("2"))
    bench.projections.write(B, [], told("3", B))
    await trio.sleep(RUN_OUT)
    os.utime(bench.path / "by-id" / B[:12] / lease.NAME, (bench.wall(), bench.wall()))
    assert not bench.counts()


async def it_wakes_nobody(bench: Bench) -> None:
    async with bench.running():
        await trio.sleep(1)
        with RawInotify(bench.path / OURS, 0xFFF) as watcher:
            await trio.sleep(3 * RENEW_SECONDS)
            assert watcher.events() == []


async def it_does_not_count_from_the_future(bench: Bench) -> None:
    bench.projections.write(A, ["voice"], told("2"))
    os.utime(bench.path / OURS / lease.NAME, (bench.wall() + 1e6, bench.wall() + 1e6))
    assert not bench.counts()


async def it_is_not_begun_for_old_files(bench: Bench) -> None:
    """A daemon that starts vouches for nothing that it has not written itself."""
    bench.projections.write(A, ["voice"], told("2"))
    await trio.sleep(1000)
    bench.projections = Projections(bench.path, clock=bench.wall)
    bench.projections.renew(bench.projections.vouched())
    assert not bench.counts()


PROMISES: tuple[Promise, ...] = (
    it_ends_with_the_daemon,
    it_ends_with_the_decisions,
    it_ends_with_a_kill,
    it_is_of_one_directory,
    it_wakes_nobody,
    it_does_not_count_from_the_future,
    it_is_not_begun_for_old_files,
)


def never_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Projections, "end_leases", lambda self: None)


def renewed_whoever_is_stuck(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Voucher, "_all_live", lambda self, **_: True)


def a_reader_that_ignores_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease, "seconds_left", lambda renewed_at, lease_seconds, now: lease_seconds)


def a_reader_that_looks_for_the_file_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease, "seconds_left", lambda renewed_at, lease_seconds, now: float(renewed_at is not None))


def a_reader_that_believes_the_future(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease, "seconds_left", lambda at, seconds, now: max(0.0, (seconds or 0) - (now - (at or 0))))


def one_file_for_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(projections, "lease_of", lambda path, short: ("by-id", A[:12]))


def renewed_by_its_name(patch: pytest.MonkeyPatch) -> None:
    def loud(tree: ProjectionTree, path: leases.Place, seconds: float) -> bool:
        with tree.opened(path) as at:
            os.utime(lease.NAME, (seconds, seconds), dir_fd=at)
        return True

    patch.setattr(ProjectionTree, "renew_lease", loud)


def begun_for_all_that_is_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases.Leases, "held", lambda self: [("by-id", A[:12])])
    honest = leases.Leases.renew

    def renew(self: leases.Leases, tree: ProjectionTree, places: list[leases.Place]) -> list[str]:
        for path in places:
            with tree.opened(path) as at:
                self.hold(tree, path, at)
        return honest(self, tree, places)

    patch.setattr(leases.Leases, "renew", renew)


FAULTS: dict[Fault, Promise] = {
    never_ended: it_ends_with_the_daemon,
    renewed_whoever_is_stuck: it_ends_with_the_decisions,
    a_reader_that_ignores_it: it_ends_with_a_kill,
    a_reader_that_looks_for_the_file_alone: it_ends_with_a_kill,
    a_reader_that_believes_the_future: it_does_not_count_from_the_future,
    one_file_for_all: it_is_of_one_directory,
    renewed_by_its_name: it_wakes_nobody,
    begun_for_all_that_is_there: it_is_not_begun_for_old_files,
}


@pytest.mark.trio
@pytest.mark.parametrize("promise", PROMISES, ids=lambda each: each.__name__)
async def test_a_promise_is_kept(promise: Promise, autojump_clock: MockClock, tmp_path: Path) -> None:
    await promise(Bench(tmp_path))


@pytest.mark.trio
@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: each.__name__)
async def test_a_planted_fault_is_caught(
    fault: Fault, autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the promise that it breaks."""
    fault(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)) as caught:
        await FAULTS[fault](Bench(tmp_path))
    assert caught.group_contains(AssertionError) if isinstance(caught.value, ExceptionGroup) else True


def test_every_promise_has_a_fault_that_breaks_it() -> None:
    assert set(FAULTS.values()) == set(PROMISES)
