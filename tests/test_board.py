"""The board: readers see the newest World, and are notified of every change of it or of a problem."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.board import Board
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import Settings
from sidecar.decide.world import World, replace
from state.model import State
from state.topology import uniform


def world(numbers: int) -> World:
    return replace(begin(State(), uniform(cores=2), Settings()), numbers=numbers)


@pytest.mark.trio
async def test_a_reader_gets_the_first_world_at_once_and_then_each_change(autojump_clock: MockClock) -> None:
    board = Board(world(0))
    seen: list[int] = []

    async def read() -> None:
        async for each in board.worlds():
            seen.append(each.numbers)
            if each.numbers == 2:
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        for number in (1, 2):
            await wait_all_tasks_blocked()
            board.post(world(number))
    assert seen == [0, 1, 2]


@pytest.mark.trio
async def test_a_slow_reader_sees_the_newest_not_every_one(autojump_clock: MockClock) -> None:
    board = Board(world(0))
    worlds = board.worlds()
    assert (await anext(worlds)).numbers == 0
    for number in (1, 2, 3):
        board.post(world(number))
    assert (await anext(worlds)).numbers == 3
    with trio.move_on_after(1) as scope:
        await anext(worlds)
    assert scope.cancelled_caught


@pytest.mark.trio
async def test_a_problem_wakes_readers_and_is_news_once(autojump_clock: MockClock) -> None:
    """Reporting it again does not wake readers, nor does reporting again that all is well."""
    board = Board(world(0))
    worlds = board.worlds()
    await anext(worlds)
    assert board.report("disk", "full")
    assert (await anext(worlds)).numbers == 0
    assert board.problems == {"disk": "full"}
    assert not board.report("disk", "full")
    assert board.report("disk", "gone")
    assert board.report("disk", None)
    assert board.problems == {}
    assert not board.report("disk", None)
    assert not board.report("never wrong", None)


@pytest.mark.trio
async def test_every_reader_is_woken(autojump_clock: MockClock) -> None:
    board = Board(world(0))
    woken: list[int] = []

    async def read() -> None:
        woken.append(await board.changed_since(1))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(read)
        await wait_all_tasks_blocked()
        board.post(world(1))
    assert woken == [2, 2, 2]
    assert await board.changed_since(1) == 2
