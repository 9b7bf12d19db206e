"""The event stream, on the simulated engine: connections are facts, and events only ask for looks."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.container.line import Sent
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    EngineConnected,
    EngineDisconnected,
    Fact,
    InventoryTaken,
    Phase,
)
from sidecar.decide.orders import ApplyCpuset, Update
from sidecar.decide.world import replace
from sidecar.observe.brief import REPEAT_SECONDS
from sidecar.observe.event_stream import LONGEST_RECONNECT_SECONDS
from sidecar.ports import EngineEvent
from state.cpuset import CPUSet
from tests.observe.bench import Bench, drained
from tests.support.engine.simulated_events import Subscription
from tests.support.keys import by_id, docker

pytestmark = pytest.mark.trio


async def test_a_connection_is_told_and_everything_looked_at(autojump_clock: MockClock, bench: Bench) -> None:
    """The subscription begins before the list is taken, so that no event falls between."""
    one = await bench.docker.run("one")
    bench.follow()
    facts: list[Fact] = []
    while not (bench.board.latest.is_ready and bench.board.latest.engine):
        facts.append(await bench.next())
    assert any(isinstance(fact, EngineConnected) for fact in facts)
    assert by_id(bench.board.latest.containers).keys() == {one}
    assert len(bench.docker.bus._subscriptions) == 1


async def test_an_event_is_a_hint_to_look(autojump_clock: MockClock, bench: Bench) -> None:
    await drained(bench)
    one = await bench.docker.create("one")
    fact = await bench.next(0.1)
    assert isinstance(fact, ContainerSeen)
    assert (fact.view.id, fact.view.phase) == (one, Phase.CREATED)
    await bench.docker.remove(one)
    assert isinstance(await bench.next(0.1), ContainerRemoved)


async def test_the_echo_of_an_own_order_is_not_looked_at(autojump_clock: MockClock, bench: Bench) -> None:
    """While the order is outstanding, its answer is enough; another tool's update is looked at."""
    one = await bench.docker.run("one")
    await drained(bench)
    known = bench.board.latest.containers[docker(one)]
    order = ApplyCpuset(docker(one), 1, Update(cpus=CPUSet.of(1)), live=True)
    quiet = bench.board.latest
    bench.board.post(quiet.with_container(replace(known, line=Sent(order))))
    await bench.engine.update(one, order.update)
    assert await bench.silence(1)
    bench.board.post(quiet)
    await bench.engine.update(one, Update(cpus=CPUSet.of(2)))
    assert isinstance(await bench.next(0.1), ContainerSeen)


@pytest.mark.parametrize("is_covered", [True, False])
async def test_a_loop_of_updates_is_looked_at_now_and_then(
    autojump_clock: MockClock, bench: Bench, is_covered: bool
) -> None:
    """The first is looked at at once. Where the hand guards it, those that follow wait for one look together;
    without one, each is looked at.
    """
    one = await bench.docker.run("one")
    await drained(bench)
    known = bench.board.latest.containers[docker(one)]
    bench.board.post(bench.board.latest.with_container(replace(known, is_covered=is_covered)))
    began, looks = trio.current_time(), list[float]()
    for number in range(100):
        await bench.engine.update(one, Update(cpus=CPUSet.of(number % 4)))
        await trio.sleep(0.02)
        while bench.inbox.statistics().current_buffer_used:
            assert isinstance(bench.inbox.receive_nowait(), ContainerSeen)
            looks.append(trio.current_time() - began)
    assert looks[0] < 0.1
    if is_covered:
        assert len(looks) <= looks[-1] / REPEAT_SECONDS + 2
        assert isinstance(await bench.next(REPEAT_SECONDS + 0.1), ContainerSeen)
        assert bench.board.latest.containers[docker(one)].view.cpuset == "3"
    else:
        assert len(looks) > 50


async def test_a_lost_connection_is_a_fact_and_is_made_again(autojump_clock: MockClock, bench: Bench) -> None:
    """With pauses that grow while there is no answer, and a full inventory after that."""
    one = await bench.docker.run("one")
    await drained(bench)
    await bench.docker.go_down()
    began = trio.current_time()
    tries = 0
    while trio.current_time() - began < 20:
        assert isinstance(await bench.next(), EngineDisconnected)
        tries += 1
    assert 5 <= tries <= 12
    await bench.docker.come_up()
    await bench.docker.remove(one)
    seen: list[Fact] = []
    while not any(isinstance(fact, InventoryTaken) for fact in seen):
        seen.append(await bench.next())
    assert any(isinstance(fact, EngineConnected) for fact in seen)
    assert bench.board.latest.containers == {}


@pytest.mark.parametrize(
    ("lasts", "least", "most"), [(30.0, 0.0, 0.2), (1.0, LONGEST_RECONNECT_SECONDS / 2, LONGEST_RECONNECT_SECONDS)]
)
async def test_a_silent_stream_that_is_cut_is_followed_again_at_once(
    autojump_clock: MockClock, bench: Bench, lasts: float, least: float, most: float
) -> None:
    """A proxy may end what is idle, again and again: nothing failed. One that is cut soon each time is a fault."""
    await drained(bench)
    pauses = []
    for _ in range(12):
        await trio.sleep(lasts)
        bench.docker.bus.end_all("cut", forget=False)
        while not isinstance(await bench.next(), EngineDisconnected):
            pass
        began = trio.current_time()
        while not isinstance(await bench.next(), EngineConnected):
            pass
        pauses.append(trio.current_time() - began)
    assert least <= max(pauses) <= most


async def test_an_engine_that_restarts_is_one_warning(autojump_clock: MockClock, bench: Bench) -> None:
    """It fails in several ways within a second. One that stays away is told again, less and less often."""
    await drained(bench)
    await bench.docker.go_down()
    counts = []
    for seconds in (4.0, 26.0, 600.0):
        with trio.move_on_after(seconds):
            while True:
                await bench.next(1000)
        counts.append(warnings(bench))
    assert counts[0] == 1
    assert counts[1] <= 4
    assert 10 <= counts[2] <= 15


async def test_another_fault_is_a_warning_at_once(autojump_clock: MockClock, bench: Bench) -> None:
    """Some minutes after the last one."""
    await drained(bench)
    for expected in (1, 2):
        await bench.docker.go_down()
        assert isinstance(await bench.next(5), EngineDisconnected)
        await bench.docker.come_up()
        with trio.move_on_after(300):
            while True:
                await bench.next(1000)
        assert warnings(bench) == expected


def warnings(bench: Bench) -> int:
    """Return how often the log has warned of the engine."""
    lines = bench.lines.getvalue().splitlines()
    return sum("warning" in line and "the engine cannot be reached" in line for line in lines)


async def test_a_gap_asks_for_an_inventory(autojump_clock: MockClock, bench: Bench) -> None:
    await drained(bench)
    subscription: Subscription = bench.docker.bus._subscriptions[0]
    subscription.put(EngineEvent(container="", action="", time_nano=0, is_gap=True))
    assert isinstance(await bench.next(0.1), InventoryTaken)


async def test_a_full_inbox_makes_senders_wait_and_loses_nothing(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The reader of the stream goes on all the same: it only requests looks."""
    bench = Bench(nursery, inbox=1)
    await drained(bench)
    made = [await bench.docker.create(f"c{number}") for number in range(40)]
    await trio.sleep(1)
    assert bench.inbox.statistics().current_buffer_used == 1
    assert not bench.docker.bus._subscriptions[0]._waiting
    while by_id(bench.board.latest.containers).keys() != set(made):
        await bench.next(1)
