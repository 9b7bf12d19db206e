"""Hands that break or fail: each is lost as a fact, closed, and followed by another one."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from sidecar.decide.hand_facts import HandLost, HandReady
from sidecar.failures import CgroupClosed
from sidecar.ports import GroupBorn, GroupGone, HandBroken
from state.cpuset import CPUSet
from state.key import ContainerKey
from tests.observe.test_births import ONE, TWO, Bench
from tests.support.hand.simulated_hand import SimulatedHand
from tests.support.keys import docker

pytestmark = pytest.mark.trio


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(nursery)


async def test_a_hand_that_breaks_is_a_fact_and_is_opened_again(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """It is not used any more before that is reported, and closed. What broke it is in the log."""
    opened: list[SimulatedHand] = []

    def open_hand(engine: str) -> SimulatedHand:
        if len(opened) == 1:
            opened.append(bench.hand)
            raise CgroupClosed("no more inotify instances")
        opened.append(SimulatedHand(CPUSet(range(4))))
        return opened[-1]

    bench.keep(nursery, open_hand)
    assert isinstance(await bench.next(), HandReady)
    opened[0]._send.send_nowait(HandBroken("its thread ended", KeyError("planted")))
    lost = await bench.news()
    assert isinstance(lost, HandLost)
    assert lost.reason == "its thread ended"
    assert bench.used[1] is None
    assert opened[0].is_shut
    assert "planted" in bench.lines.getvalue()
    assert isinstance(await bench.news(), HandLost), "it was open before, so what it lacks may come"
    assert isinstance(await bench.next(), HandReady)
    assert bench.used[-1] is opened[2]


async def test_a_hand_that_fails_unexpectedly_is_used_no_more_and_another_is_opened(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Whoever uses it tells. Which answers it holds is not known, so it is closed."""
    opened: list[SimulatedHand] = []

    def open_hand(engine: str) -> SimulatedHand:
        opened.append(SimulatedHand(CPUSet(range(4))))
        return opened[-1]

    bench.keep(nursery, open_hand)
    await bench.next()
    assert bench.lose is not None
    bench.lose(ValueError("planted"))
    assert isinstance(await bench.news(), HandLost)
    assert opened[0].is_shut
    assert "planted" in bench.lines.getvalue()
    await bench.next()
    assert bench.used == [opened[0], None, opened[1]]


async def test_news_that_cannot_be_taken_cost_no_others(bench: Bench, nursery: trio.Nursery) -> None:
    """Everything is looked at instead, and the hand is followed on."""

    def planted(container: ContainerKey, below: str, *, is_answered: bool) -> None:
        raise ValueError("planted")

    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.room.born = planted  # type: ignore[method-assign]
    bench.hand._send.send_nowait(GroupBorn(TWO, f"/docker/{TWO}", CPUSet.of(1), 0.0))
    bench.hand._send.send_nowait(GroupGone(ONE, f"/docker/{ONE}"))
    await trio.testing.wait_all_tasks_blocked()
    assert bench.room.inventories == 1
    assert bench.looks == [docker(ONE)]
    assert bench.used == [bench.hand]
