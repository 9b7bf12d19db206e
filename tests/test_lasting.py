"""Lasting tasks: each begins again after an unexpected error, ever more seldom, and says so while it is fresh."""

from __future__ import annotations

import io

import pytest
import trio
from trio.testing import MockClock

from sidecar.board import Board
from sidecar.decide.reconcile import begin
from sidecar.failures import AlreadyRunning
from sidecar.lasting import LastingTasks
from sidecar.log import Log
from state.errors import FileUnreadable
from state.model import State
from state.topology import uniform
from tests.support.decide.stories import static

pytestmark = pytest.mark.trio

WHAT = "taking inventories"


class Bench:
    """A board with lasting tasks, and when the task that is run began."""

    def __init__(self) -> None:
        self.board = Board(begin(State(), uniform(cores=2), static()))
        self.lines = io.StringIO()
        self.tasks = LastingTasks(self.board, Log(self.lines))
        self.begun: list[float] = []

    def failing(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def run(self) -> None:
        self.begun.append(trio.current_time())
        if self.errors:
            await trio.sleep(0.5)
            raise self.errors.pop(0)
        await trio.sleep_forever()


@pytest.mark.parametrize(
    "error",
    [
        OSError("planted"),
        ValueError("planted"),
        FileUnreadable("planted"),
        trio.BrokenResourceError(),
        ExceptionGroup("two", [KeyError("planted"), OSError("planted")]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_task_that_fails_begins_again_and_is_a_problem_for_a_while(
    autojump_clock: MockClock, error: Exception
) -> None:
    """Known or not, alone or in a group: what it must end with, it names."""
    bench = Bench()
    bench.failing(error)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.tasks.keep, WHAT, bench.run)
        await trio.sleep(10)
        assert bench.begun == [0, 1.5]
        assert bench.board.problems == {WHAT: f"{WHAT} failed unexpectedly, and began again: the log has the error"}
        assert bench.board.crashes == 1
        assert type(error).__name__ in bench.lines.getvalue()
        await trio.sleep(60)
        assert bench.board.problems == {}
        nursery.cancel_scope.cancel()


async def test_an_error_that_repeats_costs_little(autojump_clock: MockClock) -> None:
    """Its pauses double up to a minute; its trace is logged once; and it is a problem all the time."""
    bench = Bench()
    bench.failing(*[ValueError("planted")] * 1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.tasks.keep, WHAT, bench.run)
        await trio.sleep(3600)
        assert 60 < len(bench.begun) < 70
        assert bench.board.problems
        assert bench.lines.getvalue().count("failed unexpectedly") == 1
        nursery.cancel_scope.cancel()


async def test_a_task_that_ran_well_meanwhile_begins_again_soon(autojump_clock: MockClock) -> None:
    """The pause of a crash long ago is forgotten."""
    bench, fails = Bench(), [0.5] * 6 + [100.0]

    async def run() -> None:
        bench.begun.append(trio.current_time())
        await trio.sleep(fails.pop(0) if fails else 1000)
        raise ValueError("planted")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.tasks.keep, WHAT, run)
        await trio.sleep(300)
        assert bench.begun[6] - bench.begun[5] > 30
        assert bench.begun[7] - bench.begun[6] == 101
        nursery.cancel_scope.cancel()


async def test_what_is_not_true_any_more_is_told_at_once(autojump_clock: MockClock) -> None:
    """Before the pause; and an error in that is contained as well."""
    bench, told = Bench(), list[float]()
    bench.failing(ValueError("planted"), ValueError("planted"))

    async def then() -> None:
        told.append(trio.current_time())
        raise OSError("planted")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: bench.tasks.keep(WHAT, bench.run, then=then))
        await trio.sleep(10)
        assert told == [0.5, 2]
        assert bench.begun == [0, 1.5, 4]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("error", [AlreadyRunning("planted"), ExceptionGroup("one", [AlreadyRunning("planted")])])
async def test_a_task_ends_the_daemon_by_an_error_of_its_own(autojump_clock: MockClock, error: Exception) -> None:
    """A second sidecar, or a state directory that is gone: by then it is right to end."""
    bench = Bench()
    bench.failing(error)
    with pytest.raises(ExceptionGroup) as found:
        await bench.tasks.keep(WHAT, bench.run, ends=(AlreadyRunning,))
    assert found.group_contains(AlreadyRunning)
    assert bench.board.crashes == 0


async def test_a_task_that_returns_has_ended(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.tasks.keep(WHAT, trio.lowlevel.checkpoint)
    assert (bench.board.crashes, bench.board.problems) == (0, {})
