"""What takes long rests, and ends nothing that it does not show."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.contacts import Ready
from sidecar.decide.facts import ContainerSeen, ContainerView, InventoryTaken
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
            await bench.next()
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
