"""The task that vouches for the projections: what it demands before it renews, and what it does at its end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.board import Board
from sidecar.decide.contacts import Contact, Ready
from sidecar.decide.world import replace
from sidecar.projection.projections import Projections
from sidecar.projection.voucher import STUCK, Voucher
from state.errors import ProjectionError
from state.lease import LEASE_SECONDS, RENEW_SECONDS
from state.projection import read_with_lease
from tests.projection.test_leases import OURS, A, told
from tests.support.decide.real import ENGINE
from tests.support.decide.stories import Story
from tests.support.planted import plant, unplant

pytestmark = pytest.mark.trio

RUN_OUT = LEASE_SECONDS + 2 * RENEW_SECONDS
"""From the last proof until no reader believes it any more."""


class Bench:
    """A voucher with one sign of life, on a wall clock that goes with the virtual one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.story = Story()
        self.board = Board(self.story.world)
        self.shift = 1_800_000_000.0
        self.projections = Projections(path, clock=self.wall)
        self.rounds: int | None = None
        self.is_deaf = False
        self.problems: list[str | None] = []
        self.stuck: list[str | None] = []
        self.voucher = Voucher(
            self.board,
            self.projections,
            str(path),
            self.report,
            [lambda: self.rounds],
            clock=self.wall,
        )

    def report(self, where: str, problem: str | None) -> None:
        if where == "leases":
            self.problems.append(problem)
        else:
            self.stuck.append(problem)

    def wall(self) -> float:
        return trio.current_time() + self.shift

    def counts(self) -> bool:
        return read_with_lease(self.path / OURS, self.wall())[0].vouched

    def status_counts(self) -> bool:
        return self.wall() - os.lstat(self.path / "lease").st_mtime < LEASE_SECONDS

    def hear(self) -> None:
        self.board.heard[ENGINE] = self.board.heard["another"] = trio.current_time()

    async def keep_hearing(self) -> None:
        while True:
            await trio.sleep(1)
            if not self.is_deaf:
                self.hear()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.projections.write(A, ["voice"], told("2"))
        async with trio.open_nursery() as nursery:
            self.hear()
            nursery.start_soon(self.voucher.run)
            nursery.start_soon(self.keep_hearing)
            yield
            nursery.cancel_scope.cancel()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_it_renews_as_long_as_it_runs(bench: Bench, autojump_clock: MockClock) -> None:
    async with bench.running():
        for _ in range(100):
            await trio.sleep(1)
            assert bench.counts()
    assert set(bench.problems) == {None}


async def test_an_engine_that_answers_nothing_is_vouched_for_no_longer_than_the_page_says(
    bench: Bench, autojump_clock: MockClock
) -> None:
    """15 to 25 s after its last answer, although nothing told that it is lost; and again once it answers."""
    async with bench.running():
        await trio.sleep(100.5)
        bench.is_deaf, heard_at = True, bench.board.heard[ENGINE]
        await trio.sleep(heard_at + LEASE_SECONDS - 0.5 - trio.current_time())
        assert bench.counts()
        await trio.sleep(heard_at + RUN_OUT + 0.5 - trio.current_time())
        assert bench.board.latest.is_ready
        assert not bench.counts()
        assert not bench.status_counts()
        bench.is_deaf = False
        await trio.sleep(RENEW_SECONDS + 1)
        assert bench.counts()


async def test_its_end_is_the_end_of_all_leases(bench: Bench, autojump_clock: MockClock) -> None:
    async with bench.running():
        await trio.sleep(1)
    assert not bench.counts()


async def test_an_error_of_another_task_is_the_end_too(bench: Bench, autojump_clock: MockClock) -> None:
    """A daemon that ends by a fault vouches for nothing."""

    async def fail() -> None:
        async with bench.running():
            await trio.sleep(1)
            raise ValueError

    with pytest.raises(ExceptionGroup):
        await fail()
    assert not bench.counts()


async def test_a_task_that_is_idle_or_goes_on_is_alive(bench: Bench, autojump_clock: MockClock) -> None:
    async with bench.running():
        for number in range(100):
            bench.rounds = number // 3 if number > 50 else None
            await trio.sleep(1)
            assert bench.counts()


async def test_for_a_task_that_is_stuck_nothing_is_renewed(bench: Bench, autojump_clock: MockClock) -> None:
    """And it begins again once the task goes on."""
    async with bench.running():
        bench.rounds = 7
        await trio.sleep(RUN_OUT)
        assert not bench.counts()
        assert bench.stuck[-1] == STUCK
        bench.rounds = None
        await trio.sleep(RENEW_SECONDS + 1)
        assert bench.counts()
        assert bench.stuck[-1] is None


async def test_a_task_that_got_no_cpu_for_a_while_is_not_stuck(bench: Bench, autojump_clock: MockClock) -> None:
    """On a busy machine there may be no sign between two rounds. Nothing is renewed, and none is told to restart it."""
    async with bench.running():
        for number in range(10):
            bench.rounds = number
            await trio.sleep(2 * RENEW_SECONDS)
    assert set(bench.stuck) == {None}


async def test_a_stall_is_no_sign_that_a_task_is_stuck(bench: Bench, mock_clock: MockClock) -> None:
    """No task had a turn meanwhile."""
    async with bench.running():
        bench.rounds = 7
        for _ in range(10):
            await wait_all_tasks_blocked()
            mock_clock.jump(10 * RENEW_SECONDS)
        await wait_all_tasks_blocked()
    assert STUCK not in bench.stuck


async def test_an_engine_that_is_away_ends_the_leases_of_its_own_containers(
    bench: Bench, autojump_clock: MockClock
) -> None:
    """Those of another one go on."""
    container = bench.story.arrive("own")
    world, known = bench.story.world, Contact(bench.story.engine_info("another"))
    bench.board.post(world.with_contact("another", replace(known, readiness=Ready(0))))
    async with bench.running():
        bench.projections.write(container.id, ["own"], told("2", container.id))
        own = bench.path / "by-id" / container.id[:12]
        assert read_with_lease(own, bench.wall())[0].vouched
        bench.board.post(bench.board.latest.with_contact(ENGINE, Contact()))
        await trio.sleep(RUN_OUT)
        assert not read_with_lease(own, bench.wall())[0].vouched
        assert bench.counts()
        assert bench.status_counts()


async def test_without_the_engine_nothing_is_renewed(bench: Bench, autojump_clock: MockClock) -> None:
    """Who comes then is not seen."""
    async with bench.running():
        bench.story.disconnect()
        bench.board.post(bench.story.world)
        await trio.sleep(RUN_OUT)
        assert not bench.counts()
        bench.story.connect()
        bench.board.post(bench.story.world)
        await trio.sleep(0.1)
        assert bench.counts()


async def test_the_status_has_a_lease_as_well(bench: Bench, autojump_clock: MockClock) -> None:
    """It begins, counts and ends with the others."""
    async with bench.running():
        await trio.sleep(1)
        assert bench.status_counts()
        await trio.sleep(100)
        assert bench.status_counts()
        bench.rounds = 1
        await trio.sleep(RUN_OUT)
        assert not bench.status_counts()
        bench.rounds = None
        await trio.sleep(RENEW_SECONDS + 1)
        assert bench.status_counts()
    assert not bench.status_counts()


async def test_a_status_that_cannot_be_written_is_vouched_for_no_more(bench: Bench, autojump_clock: MockClock) -> None:
    """The disk is full: what is there tells of another time. The projections are vouched for all the same."""
    async with bench.running():
        await trio.sleep(1)
        assert bench.status_counts()
        bench.board.report("status", "no space left")
        await trio.sleep(2 * RENEW_SECONDS)
        assert (bench.status_counts(), bench.counts()) == (False, True)
        bench.board.report("status", None)
        await trio.sleep(2 * RENEW_SECONDS)
        assert bench.status_counts()


async def test_the_first_round_after_a_stall_proves_nothing(bench: Bench, mock_clock: MockClock) -> None:
    """The machine was suspended, or the process stopped: the events of that time are not read yet."""
    async with bench.running():
        await wait_all_tasks_blocked()
        mock_clock.jump(1000)
        await wait_all_tasks_blocked()
        assert not bench.counts()
        mock_clock.jump(RENEW_SECONDS)
        await wait_all_tasks_blocked()
        assert bench.counts()


async def test_what_cannot_be_renewed_is_a_problem_until_it_can(bench: Bench, autojump_clock: MockClock) -> None:
    async with bench.running():
        lease = bench.path / OURS / "lease"
        plant(lease)
        await trio.sleep(70)
        assert "by-id" in str(bench.problems[-1])
        unplant(lease)
        await trio.sleep(RENEW_SECONDS + 1)
        assert bench.problems[-1] is None
        assert bench.counts()


async def test_a_root_that_is_gone_is_a_problem_and_no_end(
    bench: Bench, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.running():

        def fails(*_: object) -> None:
            raise ProjectionError("below /run: it is on a read-only file system")

        with monkeypatch.context() as patch:
            patch.setattr(bench.projections, "renew", fails)
            await trio.sleep(RENEW_SECONDS + 1)
            assert bench.problems[-1] == "below /run: it is on a read-only file system"
        await trio.sleep(RENEW_SECONDS + 1)
        assert bench.problems[-1] is None
