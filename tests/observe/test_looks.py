"""Looks and inventories, on the simulated engine: what becomes a fact, and what only requests one."""

from __future__ import annotations

from typing import NoReturn

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.decide.contacts import Ready
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    EngineDisconnected,
    InventoryTaken,
    Phase,
)
from sidecar.decide.sightings import sighted
from sidecar.failures import EngineFailed, EngineSilent, EngineUnavailable
from state.cpuset import CPUSet
from state.errors import FileUnreadable
from state.key import ContainerKey
from tests.observe.bench import Bench, drained
from tests.support.decide.contacts import with_readiness
from tests.support.keys import by_id, docker

pytestmark = pytest.mark.trio


# Looks.


async def test_a_look_is_the_engines_view_and_the_kernels_word(autojump_clock: MockClock, bench: Bench) -> None:
    one = await bench.docker.run("one")
    bench.looker.look(docker(one))
    fact = await bench.next()
    assert isinstance(fact, ContainerSeen)
    assert (fact.view.name, fact.view.phase, fact.view.effective) == ("one", Phase.RUNNING, CPUSet.of(0, 1, 2, 3))


async def test_the_kernel_knows_better_what_runs(autojump_clock: MockClock, bench: Bench) -> None:
    """An engine that was killed while it started a container may call it exited: if it has processes, it runs."""
    one = await bench.docker.run("one")
    await bench.docker.kill(one)
    bench.docker.kernel.enter(one, CPUSet.of(2))
    bench.looker.look(docker(one))
    fact = await bench.next()
    assert isinstance(fact, ContainerSeen)
    assert (fact.view.phase, fact.view.effective) == (Phase.RUNNING, CPUSet.of(2))


async def test_a_look_at_an_absent_container_is_a_removal(autojump_clock: MockClock, bench: Bench) -> None:
    bench.looker.look(docker("f" * 64))
    assert await bench.next() == ContainerRemoved(docker("f" * 64), 1)


async def test_hints_that_come_during_a_look_are_one_more_look(autojump_clock: MockClock, bench: Bench) -> None:
    one = await bench.docker.run("one")
    bench.looker.look(docker(one))
    await wait_all_tasks_blocked()
    for _ in range(10):
        bench.looker.look(docker(one))
    assert isinstance(await bench.next(), ContainerSeen)
    assert isinstance(await bench.next(), ContainerSeen)
    assert await bench.silence(1)


async def test_a_look_that_waits_for_a_start_holds_up_no_other(autojump_clock: MockClock, bench: Bench) -> None:
    one, two = await bench.docker.create("one"), await bench.docker.create("two")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.docker.start, one)
        await trio.sleep(0.001)
        bench.looker.look(docker(one))
        bench.looker.look(docker(two))
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
    bench.looker.look(docker(one))
    await bench.next()
    await bench.docker.go_down()
    bench.looker.look(docker(one))
    assert await bench.silence(1)
    await bench.docker.come_up()
    bench.looker.look_at_everything()
    assert isinstance(await bench.next(), InventoryTaken)


# Inventories.


async def test_an_inventory_tells_what_differs(autojump_clock: MockClock, bench: Bench) -> None:
    """All containers the first time, and then only news; in the order in which they were created."""
    await trio.sleep(0.123456)
    one, two = await bench.docker.run("one"), await bench.docker.run("two")
    await bench.looker.take_inventory()
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert [view.id for view in fact.seen] == [one, two]
    bench.board.post(with_readiness(bench.board.latest, Ready(0)))
    await bench.docker.rename(two, "renamed")
    await bench.docker.remove(one)
    await bench.looker.take_inventory()
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert [view.name for view in fact.seen] == ["renamed"]
    assert fact.gone == (docker(one),)


async def test_an_inventory_counts_the_containers_of_its_own_engine(autojump_clock: MockClock, bench: Bench) -> None:
    """A container of another engine is not gone although it is missing here, even with the same id."""
    one = await bench.docker.run("one")
    for engine in ("docker", "podman"):
        view = msgspec.structs.replace(bench.docker.container(one).view(), engine=engine)
        bench.board.post(sighted(bench.board.latest, view, bench.tickets()))
    await bench.docker.remove(one)
    await bench.looker.take_inventory()
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert fact.gone == (docker(one),)
    assert bench.board.latest.containers.keys() == {ContainerKey("podman", one)}


async def test_an_inventory_is_taken_every_period_and_when_asked(autojump_clock: MockClock, bench: Bench) -> None:
    bench.nursery.start_soon(bench.looker.keep_inventory, 10.0)
    await bench.next()
    first = trio.current_time()
    await bench.docker.run("one")
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
        del bench.docker.host.containers[docker(one)]
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert [view.id for view in fact.seen] == [two]


# Engines that hang.


async def silent(*_: str) -> NoReturn:
    """Stand in for any request to an engine that hangs."""
    await trio.sleep(10)
    raise EngineSilent("the engine did not answer within 10 s")


async def test_a_container_that_hangs_hides_no_other(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is held indefinitely: it is only glanced at, so that the State keeps it; it is reported once."""
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
        await trio.sleep(15)
    known = by_id(bench.board.latest.containers)
    assert {id: each.view.is_glance for id, each in known.items()} == {one: True, two: False}
    assert bench.lines.getvalue().count("a container cannot be inspected") == 1
    assert bench.board.problems == {"looks": "these containers cannot be inspected: one"}
    monkeypatch.undo()
    await bench.looker.take_inventory()
    for _ in range(2):
        await bench.next()
    assert not any(each.view.is_glance for each in bench.board.latest.containers.values())
    assert bench.board.problems == {}


async def test_locks_that_others_hold_delay_no_look(autojump_clock: MockClock, bench: Bench) -> None:
    """However many: their looks give their places away, an inventory goes on without them, and each ends by itself."""
    free, held = await bench.docker.run("free"), [await bench.docker.run(f"held{number}") for number in range(40)]
    for one in held:
        await bench.docker.container(one).lock.acquire()
    began = trio.current_time()
    await bench.looker.take_inventory()
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert {view.id for view in fact.seen if not view.is_glance} == {free}
    assert trio.current_time() - began < 2
    for one in held:
        bench.looker.look(docker(one))
    bench.looker.look(docker(free))
    fact = await bench.next(0.01)
    assert isinstance(fact, ContainerSeen)
    assert fact.view.id == free
    began = trio.current_time()
    await bench.looker.take_inventory()
    assert trio.current_time() - began < 0.1
    for one in held:
        bench.docker.container(one).lock.release()
    while any(each.view.is_glance for each in bench.board.latest.containers.values()):
        await bench.next(0.1)


async def test_the_kernel_is_asked_whatever_the_engine_does(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list without end hides no container that is elsewhere now."""
    one = await bench.docker.run("one")
    await drained(bench)
    monkeypatch.setattr(bench.engine, "containers", trio.sleep_forever)
    bench.nursery.start_soon(bench.looker.keep_inventory, 10.0)
    await trio.sleep(25)
    bench.docker.kernel.write(one, CPUSet.of(3))
    fact = await bench.next(11)
    assert isinstance(fact, ContainerSeen)
    assert fact.view.effective == CPUSet.of(3)


async def test_a_container_that_cannot_be_read_at_all_may_be_anywhere(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a description nor a glance: it is named among the problems, counts everywhere, and hides no other."""
    one, two = await bench.docker.run("one"), await bench.docker.run("two")
    inspect = bench.engine.inspect

    async def of_two(container: str) -> ContainerView:
        if container == one:
            raise EngineFailed("the engine's answer has more parts than any container needs")
        return await inspect(container)

    async def too_large(_: str) -> NoReturn:
        raise EngineFailed("the engine's answer has more parts than any container needs")

    monkeypatch.setattr(bench.engine, "inspect", of_two)
    monkeypatch.setattr(bench.engine, "glance", too_large)
    bench.looker.look(docker(one))
    fact = await bench.next()
    assert isinstance(fact, ContainerSeen)
    assert fact.view.is_glance
    assert bench.board.problems == {"looks": f"these containers cannot be inspected: {one[:12]}"}
    await bench.looker.take_inventory()
    await bench.next()
    assert bench.board.latest.containers[docker(one)].footprint == 0b1111
    assert not bench.board.latest.containers[docker(two)].view.is_glance


async def test_an_engine_that_hangs_during_an_inventory_hides_no_container(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All looks fail, and then the list, too: that is no inventory."""
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
    """No event comes and the stream does not end: the inventory notices. Once the engine answers, all is looked at
    again.
    """
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


async def test_an_inventory_that_is_refused_is_said_and_is_no_disconnection(
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


async def test_a_look_that_the_kernel_cannot_answer_is_none(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of descriptors: the engine is not believed instead, and nothing ends."""

    def exhausted(view: ContainerView) -> NoReturn:
        raise FileUnreadable("too many open files")

    await drained(bench)
    monkeypatch.setattr(bench.docker.kernel, "effective_cpus", exhausted)
    one = await bench.docker.run("one")
    await trio.sleep(5)
    assert docker(one) not in bench.board.latest.containers
    assert "where it runs cannot be found out: too many open files" in str(bench.board.problems)
    monkeypatch.undo()
    bench.looker.look(docker(one))
    while docker(one) not in bench.board.latest.containers:
        await bench.next(1)
    assert isinstance(bench.board.latest.containers[docker(one)].place.seen, CPUSet)
