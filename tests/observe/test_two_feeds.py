"""A feed for each of two engines, on one board: what one does, or does not do, costs the other nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.contacts import Away, Contact
from sidecar.decide.step import step
from sidecar.observe.event_stream import follow_events
from sidecar.observe.looks import Looker
from state.key import ContainerKey
from state.topology import uniform
from tests.observe.bench import Bench
from tests.support.daemon.second_engine import OTHER, SecondEngine
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker

pytestmark = pytest.mark.trio


class TwoFeeds(Bench):
    """The bench's engine, and another one: each has a looker and a stream of its own."""

    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self.other = SecondEngine(uniform(cores=4))
        self.other_docker = self.other.docker
        for name in (self.engine.name, OTHER):
            self.board.post(self.board.latest.with_contact(name, Contact()))
        self.feed(self.engine, self.docker, OTHER)
        self.feed(self.other, self.other_docker, self.engine.name)
        nursery.start_soon(self._fold)

    def feed(self, engine: SimulatedEngine, docker: SimulatedDocker, other: str) -> None:
        looker = Looker(
            self.nursery,
            self.board,
            self.outbox,
            engine=engine,
            kernel=docker.kernel,
            tickets=self.tickets,
            log=self.log,
            others=(other,),
        )
        self.nursery.start_soon(looker.keep_inventory, 10.0)

        async def follow() -> None:
            await follow_events(
                engine,
                self.board,
                looker,
                self.outbox,
                tickets=self.tickets,
                rng=Random(1),
                log=self.log,
                name=engine.name,
            )

        self.nursery.start_soon(follow)

    async def _fold(self) -> None:
        async for fact in self.inbox:
            self.board.post(step(self.board.latest, [fact])[0])

    def known(self) -> set[ContainerKey]:
        return set(self.board.latest.containers)

    def is_ready(self, name: str) -> bool:
        return self.board.latest.contacts[name].is_ready

    async def until(self, condition: Callable[[], object], seconds: float = 30) -> None:
        with trio.fail_after(seconds):
            while not condition():  # noqa: ASYNC110 - in virtual time
                await trio.sleep(0.1)


@pytest.fixture
def feeds(nursery: trio.Nursery) -> TwoFeeds:
    return TwoFeeds(nursery)


async def test_each_inventory_is_of_one_engine(autojump_clock: MockClock, feeds: TwoFeeds) -> None:
    """Neither makes the other's containers gone, nor the other engine ready."""
    one, two = await feeds.docker.run("one"), await feeds.other_docker.run("two")
    both = {ContainerKey(feeds.engine.name, one), ContainerKey(OTHER, two)}
    await feeds.until(lambda: feeds.board.latest.sees_all and feeds.known() == both)
    await trio.sleep(60)
    assert feeds.known() == both
    await feeds.docker.remove(one)
    await feeds.until(lambda: feeds.known() == {ContainerKey(OTHER, two)})


async def test_an_engine_that_dies_or_is_silent_costs_the_other_nothing(
    autojump_clock: MockClock, feeds: TwoFeeds
) -> None:
    """What it has stays known, and the other one's news come as soon as before."""
    two = await feeds.other_docker.run("two")
    await feeds.until(lambda: feeds.board.latest.sees_all and feeds.known())
    feeds.other.is_silent = True
    await feeds.until(lambda: isinstance(feeds.board.latest.contacts[OTHER].readiness, Away), 60)
    assert f"engine {OTHER}" in feeds.board.problems
    assert "engine" not in feeds.board.problems
    assert feeds.is_ready(feeds.engine.name)
    one = await feeds.docker.run("one")
    await feeds.until(lambda: ContainerKey(feeds.engine.name, one) in feeds.known(), 0.5)
    await trio.sleep(60)
    assert feeds.known() == {ContainerKey(feeds.engine.name, one), ContainerKey(OTHER, two)}
    assert feeds.is_ready(feeds.engine.name)
    feeds.other.is_silent = False
    await feeds.until(lambda: feeds.board.latest.sees_all, 60)
    assert f"engine {OTHER}" not in feeds.board.problems


async def test_another_engine_at_its_address_is_not_taken_for_it(autojump_clock: MockClock, feeds: TwoFeeds) -> None:
    """Its containers would be known by the wrong keys."""
    await feeds.until(lambda: feeds.board.latest.sees_all)
    feeds.other.is_silent = True
    await feeds.until(lambda: not feeds.is_ready(OTHER), 60)
    feeds.other.name, feeds.other.is_silent = "docker", False
    await feeds.until(lambda: "docker answers where podman should" in str(feeds.board.problems), 60)
    assert not feeds.is_ready(OTHER)
