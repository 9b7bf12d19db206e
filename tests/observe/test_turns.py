"""Turns: a place is given away in time, and what is costly rests."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sidecar.observe.turns import PLACE_SECONDS, PLACES, REST_FACTOR, Rests, Turns
from tests.support.keys import docker

pytestmark = pytest.mark.trio


async def test_a_turn_ends_in_time(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """Then the next one has the place; the first one goes on, and it is told that it is late."""
    turns, late, began = Turns(nursery), list[str](), list[float]()

    async def wait(name: str) -> None:
        async with turns.taken(docker(name), lambda: late.append(name)):
            began.append(trio.current_time())
            await trio.sleep(100)

    for number in range(2 * PLACES):
        nursery.start_soon(wait, f"{number:064x}")
    await trio.sleep(PLACE_SECONDS * 3)
    assert len(began) == len(late) == 2 * PLACES
    assert max(began) - min(began) == pytest.approx(PLACE_SECONDS)


async def test_one_that_was_late_waits_among_its_kind(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """It takes no place of another, and is told at once that it is late; one answer in time ends that."""
    turns, late = Turns(nursery), list[str]()

    async def look(name: str, seconds: float) -> float:
        began = trio.current_time()
        async with turns.taken(docker(name), lambda: late.append(name)):
            waited = trio.current_time() - began
            await trio.sleep(seconds)
        return waited

    for number in range(PLACES):
        await look(f"{number}", PLACE_SECONDS * 2)
    late.clear()
    for number in range(PLACES):
        nursery.start_soon(look, f"{number}", 0.1)
    await trio.testing.wait_all_tasks_blocked()
    assert len(late) == PLACES
    assert await look("another", 0) == 0
    await trio.sleep(1)
    late.clear()
    await look("0", 0.1)
    assert late == []


async def test_a_turn_that_fails_gives_its_place_back(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    turns = Turns(nursery)
    for _ in range(2 * PLACES):
        with pytest.raises(ValueError, match="no"):
            async with turns.taken(docker("one"), lambda: None):
                raise ValueError("no")


async def test_a_rest_is_ten_times_as_long(autojump_clock: MockClock) -> None:
    rests = Rests[str]()
    assert rests.is_over("one")
    rests.begin("one", 2)
    await trio.sleep(2 * REST_FACTOR - 1)
    assert not rests.is_over("one")
    assert rests.is_over("two")
    await trio.sleep(1)
    assert rests.is_over("one")
    rests.begin("one", 2)
    rests.forget_all_but(["two"])
    assert rests.is_over("one")
