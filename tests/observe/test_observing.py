"""Looks, inventories and the event stream, on the simulated engine: what becomes a fact, and what only asks for one."""

from __future__ import annotations

import io
import itertools
from random import Random
from typing import NoReturn

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.board import Board
from sidecar.decide.container.line import Sent
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    EngineConnected,
    EngineDisconnected,
    Fact,
    InventoryTaken,
    Phase,
)
from sidecar.decide.orders import ApplyCpuset, Update
from sidecar.decide.reconcile import begin
from sidecar.decide.step import step
from sidecar.decide.world import Ready, replace
from sidecar.failures import EngineFailed, EngineSilent, EngineUnavailable
from sidecar.log import Log, LogLevel
from sidecar.observe.event_stream import follow_events
from sidecar.observe.looks import Looker
from sidecar.ports import EngineEvent
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform
from tests.decide.stories import static
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker
from tests.support.engine.simulated_events import Subscription

pytestmark = pytest.mark.trio


class Bench:
    """A looker and the stream on a simulated engine; facts come out of `inbox` and are folded into the board."""

    def __init__(self, nursery: trio.Nursery, *, inbox: int = 100) -> None:
        self.nursery = nursery
        self.docker = SimulatedDocker(uniform(cores=4), chance=Random(1))
        self.engine = SimulatedEngine(self.docker)
        self.board = Board(begin(State(), uniform(cores=4), static()))
        self.lines = io.StringIO()
        self.log = Log(self.lines, level=LogLevel.DEBUG)
        self.outbox, self.inbox = trio.open_memory_channel[Fact](inbox)
        self.tickets = itertools.count(1).__next__
        self.looker = Looker(
            nursery,
            self.board,
            self.outbox,
            engine=self.engine,
            kernel=self.docker.kernel,
            tickets=self.tickets,
            log=self.log,
        )

    def follow(self) -> None:
        """Start the stream, and the inventories that it asks for."""
        self.nursery.start_soon(self.looker.keep_inventory, 1000.0)
        self.nursery.start_soon(self._follow)

    async def _follow(self) -> None:
        await follow_events(
            self.engine, self.board, self.looker, self.outbox, tickets=self.tickets, rng=Random(1), log=self.log
        )

    async def next(self, seconds: float = 50) -> Fact:
        """The next fact, folded."""
        with trio.fail_after(seconds):
            fact = await self.inbox.receive()
        self.board.post(step(self.board.latest, [fact])[0])
        return fact

    async def silence(self, seconds: float) -> bool:
        """Whether nothing is told for so long."""
        with trio.move_on_after(seconds):
            await self.inbox.receive()
            return False
        return True


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(nursery)


# Looks.


async def test_a_look_is_the_engines_view_and_the_kernels_word(autojump_clock: MockClock, bench: Bench) -> None:
    one = await bench.docker.run("one")
    bench.looker.look(one)
    fact = await bench.next()
    assert isinstance(fact, ContainerSeen)
    assert (fact.view.name, fact.view.phase, fact.view.effective) == ("one", Phase.RUNNING, CPUSet.of(0, 1, 2, 3))


async def test_the_kernel_knows_better_who_runs(autojump_clock: MockClock, bench: Bench) -> None:
    """An engine that was killed while it started a container may call it exited: where it has processes, it runs."""
    one = await bench.docker.run("one")
    await bench.docker.kill(one)
    bench.docker.kernel.enter(one, CPUSet.of(2))
    bench.looker.look(one)
    fact = await bench.next()
    assert isinstance(fact, ContainerSeen)
    assert (fact.view.phase, fact.view.effective) == (Phase.RUNNING, CPUSet.of(2))


async def test_a_look_at_nobody_is_a_removal(autojump_clock: MockClock, bench: Bench) -> None:
    bench.looker.look("f" * 64)
    assert await bench.next() == ContainerRemoved("f" * 64, 1)


async def test_hints_that_come_during_a_look_are_one_more_look(autojump_clock: MockClock, bench: Bench) -> None:
    one = await bench.docker.run("one")
    bench.looker.look(one)
    await wait_all_tasks_blocked()
    for _ in range(10):
        bench.looker.look(one)
    assert isinstance(await bench.next(), ContainerSeen)
    assert isinstance(await bench.next(), ContainerSeen)
    assert await bench.silence(1)


async def test_a_look_that_waits_for_a_start_holds_up_no_other(autojump_clock: MockClock, bench: Bench) -> None:
    one, two = await bench.docker.create("one"), await bench.docker.create("two")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.docker.start, one)
        await trio.sleep(0.001)
        bench.looker.look(one)
        bench.looker.look(two)
        names = []
        for _ in range(2):
            fact = await bench.next()
            assert isinstance(fact, ContainerSeen)
            names.append(fact.view.name)
    assert names == ["two", "one"]


async def test_a_look_that_fails_asks_for_an_inventory(autojump_clock: MockClock, bench: Bench) -> None:
    one = await bench.docker.run("one")
    bench.nursery.start_soon(bench.looker.keep_inventory, 1000.0)
    await trio.sleep(1)
    await bench.docker.go_down()
    bench.looker.look(one)
    assert await bench.silence(1)
    await bench.docker.come_up()
    bench.looker.look_at_everything()
    assert isinstance(await bench.next(), InventoryTaken)


# Inventories.


async def test_an_inventory_tells_what_differs(autojump_clock: MockClock, bench: Bench) -> None:
    """Everybody the first time, and then only news; in the order in which they were created."""
    await trio.sleep(0.123456)
    one, two = await bench.docker.run("one"), await bench.docker.run("two")
    await bench.looker.take_inventory()
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert [view.id for view in fact.seen] == [one, two]
    bench.board.post(replace(bench.board.latest, readiness=Ready(0)))
    await bench.docker.rename(two, "renamed")
    await bench.docker.remove(one)
    await bench.looker.take_inventory()
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert [view.name for view in fact.seen] == ["renamed"]
    assert fact.gone == (one,)


async def test_an_inventory_is_taken_every_period_and_when_asked(autojump_clock: MockClock, bench: Bench) -> None:
    bench.nursery.start_soon(bench.looker.keep_inventory, 10.0)
    await bench.next()
    first = trio.current_time()
    await bench.next()
    assert 10 <= trio.current_time() - first < 10.1
    bench.looker.look_at_everything()
    await bench.next(0.1)


async def test_an_inventory_that_fails_tells_nothing(autojump_clock: MockClock, bench: Bench) -> None:
    await bench.docker.run("one")
    await bench.docker.go_down()
    with pytest.raises(EngineUnavailable):
        await bench.looker.take_inventory()
    bench.nursery.start_soon(bench.looker.keep_inventory, 5.0)
    assert await bench.silence(12)


async def test_a_container_that_goes_during_an_inventory_is_left_out(autojump_clock: MockClock, bench: Bench) -> None:
    one, two = await bench.docker.run("one"), await bench.docker.run("two")
    async with trio.open_nursery() as nursery, bench.docker.container(one).lock:
        nursery.start_soon(bench.looker.take_inventory)
        await trio.sleep(0.1)
        del bench.docker.host.containers[one]
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert [view.id for view in fact.seen] == [two]


# Engines that hang.


async def silent(*_: str) -> NoReturn:
    """Any request to an engine that hangs."""
    await trio.sleep(10)
    raise EngineSilent("the engine did not answer within 10 s")


async def test_a_container_that_hangs_hides_no_other(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is held for ever: it is only glanced at, so that no books forget it; people are told once."""
    one, two = await bench.docker.run("one"), await bench.docker.run("two")
    inspect = bench.engine.inspect

    async def of_one_in_vain(container: str) -> ContainerView:
        return await (silent() if container == one else inspect(container))

    monkeypatch.setattr(bench.engine, "inspect", of_one_in_vain)
    for _ in range(2):
        await bench.looker.take_inventory()
        fact = await bench.next()
        assert isinstance(fact, InventoryTaken)
        assert fact.gone == ()
    assert {id: each.view.is_glance for id, each in bench.board.latest.containers.items()} == {one: True, two: False}
    assert bench.lines.getvalue().count("a container cannot be looked at") == 1
    assert bench.board.problems == {"looks": "these containers cannot be looked at: one"}
    monkeypatch.undo()
    await bench.looker.take_inventory()
    await bench.next()
    assert not any(each.view.is_glance for each in bench.board.latest.containers.values())
    assert bench.board.problems == {}


async def test_an_engine_that_hangs_during_an_inventory_hides_nobody(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All looks in vain, and then the list, too: that is no inventory."""
    one = await bench.docker.run("one")
    listed = iter([(one,)])

    async def once() -> tuple[str, ...]:
        for answer in listed:
            return answer
        return await silent()

    monkeypatch.setattr(bench.engine, "inspect", silent)
    monkeypatch.setattr(bench.engine, "containers", once)
    with pytest.raises(EngineSilent):
        await bench.looker.take_inventory()
    assert bench.inbox.statistics().current_buffer_used == 0


async def test_a_stream_whose_engine_hangs_is_given_up(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes and nothing ends: the inventory notices. Once the engine answers, all is looked at anew."""
    await drained(bench)
    monkeypatch.setattr(bench.engine, "containers", silent)
    monkeypatch.setattr(bench.engine, "info", silent)
    bench.looker.look_at_everything()
    assert await bench.next(11) == EngineDisconnected("the engine did not answer within 10 s")
    assert bench.board.problems == {"engine": "the engine did not answer within 10 s"}
    assert not bench.board.latest.is_ready
    assert not bench.docker.bus._subscriptions
    monkeypatch.undo()
    while not isinstance(await bench.next(), InventoryTaken):
        continue
    assert bench.board.problems == {}
    assert len(bench.docker.bus._subscriptions) == 1


async def test_an_inventory_that_is_refused_is_said_and_disconnects_nobody(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await drained(bench)

    async def failing() -> NoReturn:
        raise EngineFailed("no")

    monkeypatch.setattr(bench.engine, "containers", failing)
    bench.looker.look_at_everything()
    assert await bench.silence(5)
    assert bench.board.problems == {"inventory": "containers cannot be listed: no"}
    monkeypatch.undo()
    bench.looker.look_at_everything()
    assert isinstance(await bench.next(), InventoryTaken)
    await wait_all_tasks_blocked()
    assert bench.board.problems == {}


# The stream.


async def test_a_connection_is_told_and_everything_looked_at(autojump_clock: MockClock, bench: Bench) -> None:
    """The subscription stands before the list is taken, so that nothing falls between."""
    one = await bench.docker.run("one")
    bench.follow()
    facts: list[Fact] = []
    while not (bench.board.latest.is_ready and bench.board.latest.engine):
        facts.append(await bench.next())
    assert any(isinstance(fact, EngineConnected) for fact in facts)
    assert bench.board.latest.containers.keys() == {one}
    assert len(bench.docker.bus._subscriptions) == 1


async def drained(bench: Bench) -> None:
    bench.follow()
    while bench.inbox.statistics().current_buffer_used or not bench.board.latest.is_ready:
        await bench.next()
    await trio.sleep(0.1)
    while bench.inbox.statistics().current_buffer_used:
        await bench.next()


async def test_an_event_is_a_hint_to_look(autojump_clock: MockClock, bench: Bench) -> None:
    await drained(bench)
    one = await bench.docker.create("one")
    fact = await bench.next(0.1)
    assert isinstance(fact, ContainerSeen)
    assert (fact.view.id, fact.view.phase) == (one, Phase.CREATED)
    await bench.docker.remove(one)
    assert isinstance(await bench.next(0.1), ContainerRemoved)


async def test_the_echo_of_an_own_order_is_not_looked_at(autojump_clock: MockClock, bench: Bench) -> None:
    """While the order is outstanding its answer tells; somebody else's update is looked at."""
    one = await bench.docker.run("one")
    await drained(bench)
    known = bench.board.latest.containers[one]
    order = ApplyCpuset(one, 1, Update(cpus=CPUSet.of(1)), live=True)
    quiet = bench.board.latest
    bench.board.post(quiet.with_container(replace(known, line=Sent(order))))
    await bench.engine.update(one, order.update)
    assert await bench.silence(1)
    bench.board.post(quiet)
    await bench.engine.update(one, Update(cpus=CPUSet.of(2)))
    assert isinstance(await bench.next(0.1), ContainerSeen)


async def test_a_lost_connection_is_a_fact_and_is_made_anew(autojump_clock: MockClock, bench: Bench) -> None:
    """With pauses that grow while nobody answers, and a full inventory after that."""
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


async def test_a_gap_asks_for_an_inventory(autojump_clock: MockClock, bench: Bench) -> None:
    await drained(bench)
    subscription: Subscription = bench.docker.bus._subscriptions[0]
    subscription.put(EngineEvent(container="", action="", time_nano=0, is_gap=True))
    assert isinstance(await bench.next(0.1), InventoryTaken)


async def test_a_full_inbox_makes_senders_wait_and_loses_nothing(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The reader of the stream goes on all the same: it only asks for looks."""
    bench = Bench(nursery, inbox=1)
    await drained(bench)
    made = [await bench.docker.create(f"c{number}") for number in range(40)]
    await trio.sleep(1)
    assert bench.inbox.statistics().current_buffer_used == 1
    assert not bench.docker.bus._subscriptions[0]._waiting
    while bench.board.latest.containers.keys() != set(made):
        await bench.next(1)
