"""What takes long rests, and ends nothing that it does not show."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.contacts import Ready
from sidecar.decide.facts import ContainerSeen, ContainerView, InventoryTaken
from sidecar.observe.looks import Looker
from state.key import SYSTEMD
from tests.observe.bench import Bench
from tests.support.decide.contacts import with_readiness
from tests.support.keys import docker

pytestmark = pytest.mark.trio


async def test_what_is_costly_is_asked_for_seldom(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A description, or a list, that took long rests for ten times as long. News and others are looked at meanwhile."""
    giant, usual = await bench.docker.run("giant"), await bench.docker.run("usual")
    inspect, containers = bench.engine.inspect, bench.engine.containers
    asked: list[str] = []

    async def costly(container: str) -> ContainerView:
        asked.append(container)
        await trio.sleep(5 if container == giant else 0)
        return await inspect(container)

    async def listed() -> tuple[str, ...]:
        asked.append("list")
        await trio.sleep(2)
        return await containers()

    monkeypatch.setattr(bench.engine, "inspect", costly)
    monkeypatch.setattr(bench.engine, "containers", listed)
    bench.board.post(with_readiness(bench.board.latest, Ready(0)))
    bench.nursery.start_soon(bench.looker.keep_inventory, 1.0)
    with trio.move_on_after(60):
        while True:
            # Inventories without news are not told.
            await bench.next(100)
    assert (asked.count(giant), asked.count("list")) == (2, 3)
    assert asked.count(usual) > 30
    bench.looker.look(docker(giant))
    assert isinstance(await bench.next(6), InventoryTaken | ContainerSeen)
    assert asked.count(giant) == 3


async def test_a_container_that_came_while_the_list_rests_is_not_gone(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its look began before an inventory that asks for no list, and ended before that did."""
    other = await bench.docker.run("other")
    inspect, containers = bench.engine.inspect, bench.engine.containers
    lasts = {other: 0.0}

    async def slow(container: str) -> ContainerView:
        await trio.sleep(lasts.get(container, 3))
        return await inspect(container)

    async def listed() -> tuple[str, ...]:
        await trio.sleep(2)
        return await containers()

    monkeypatch.setattr(bench.engine, "inspect", slow)
    monkeypatch.setattr(bench.engine, "containers", listed)
    bench.board.post(with_readiness(bench.board.latest, Ready(0)))
    await bench.looker.take_inventory()
    await bench.next()
    newcomer, lasts[other] = await bench.docker.run("newcomer"), 8
    bench.looker.look(docker(newcomer))
    await trio.sleep(1)
    bench.nursery.start_soon(bench.looker.take_inventory)
    while not isinstance(fact := await bench.next(), InventoryTaken):
        assert docker(newcomer) in bench.board.latest.containers
    assert fact.gone == ()
    assert docker(newcomer) in bench.board.latest.containers


async def _with_a_slow_list(bench: Bench, monkeypatch: pytest.MonkeyPatch, begun: list[float]) -> None:
    """Make the list take two seconds, note when it begins, and take a first inventory."""
    containers = bench.engine.containers

    async def listed() -> tuple[str, ...]:
        begun.append(trio.current_time())
        await trio.sleep(2)
        return await containers()

    monkeypatch.setattr(bench.engine, "containers", listed)
    bench.board.post(with_readiness(bench.board.latest, Ready(0)))
    await bench.looker.take_inventory()
    await bench.next()


async def test_what_came_while_news_was_lost_is_found_however_the_list_rests(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner is told to be alone meanwhile, so this takes as long as two lists, and not as ten."""
    begun: list[float] = []
    await _with_a_slow_list(bench, monkeypatch, begun)
    bench.nursery.start_soon(bench.looker.keep_inventory, 60.0)
    newcomer = docker(await bench.docker.run("newcomer"))
    asked = trio.current_time()
    bench.looker.look_at_everything()
    while newcomer not in bench.board.latest.containers:
        await bench.next()
    assert trio.current_time() - asked <= 4.2


async def test_news_that_is_lost_again_and_again_leaves_the_engine_time_for_others(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its list takes at most half of its time."""
    begun: list[float] = []
    await _with_a_slow_list(bench, monkeypatch, begun)
    bench.nursery.start_soon(bench.looker.keep_inventory, 60.0)
    with trio.move_on_after(40):
        while True:
            bench.looker.look_at_everything()
            await trio.sleep(0.05)
            while bench.inbox.statistics().current_buffer_used:
                await bench.next()
    assert 8 <= len(begun) <= 11
    assert min(after - before for before, after in pairwise(begun)) >= 4


async def test_an_inventory_lacks_what_its_list_lacked(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source of units that tells of them later was not looked at, with that list and without another."""
    told: list[str] = []
    looker = Looker(
        bench.nursery,
        bench.board,
        bench.outbox,
        engine=bench.engine,
        kernel=bench.docker.kernel,
        tickets=bench.tickets,
        log=bench.log,
        unit_sources=lambda: told,
    )
    await bench.docker.run("one")
    inspect = bench.engine.inspect

    async def later(container: str) -> ContainerView:
        told[:] = [SYSTEMD]
        return await inspect(container)

    monkeypatch.setattr(bench.engine, "inspect", later)
    await _with_a_slow_list(bench, monkeypatch, [])
    told.clear()
    for has_list in (True, False):
        await looker.take_inventory()
        fact = await bench.next()
        assert isinstance(fact, InventoryTaken)
        assert fact.has_list is has_list
        assert SYSTEMD in fact.lacks
    await trio.sleep(21)
    await looker.take_inventory()
    fact = await bench.next()
    assert isinstance(fact, InventoryTaken)
    assert SYSTEMD not in fact.lacks
