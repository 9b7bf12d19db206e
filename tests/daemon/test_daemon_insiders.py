"""The whole daemon when something is born inside an owner's group."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.facts import ContainerView
from sidecar.ports import GroupBorn, GroupGone
from tests.daemon.test_daemon_brief import owned, told
from tests.support.daemon.host import Host
from tests.support.hand.kernel_hand import KernelHand

pytestmark = pytest.mark.trio

SOON = 0.015
"""Seconds from the birth of a group until a program begins in it, with a runtime in C."""


class Inside:
    """A host with an owner, and a group in that one's."""

    def __init__(self, host: Host, hands: list[KernelHand], owner: str) -> None:
        self.host = host
        self._hands = hands
        self.owner = owner

    def slow_down(self) -> None:
        """Have each look take some milliseconds, as those of engines do, also at what is not there."""
        honest = self.host.engine.inspect

        async def inspect(container: str) -> ContainerView:
            await trio.sleep(0.005)
            return await honest(container)

        self.host.engine.inspect = inspect  # type: ignore[method-assign]

    def birth(self, id: str) -> None:
        self._tell(GroupBorn(id, f"/docker/{self.owner}/{id}", None, 0.0, self.owner))

    def end(self, id: str) -> None:
        self._tell(GroupGone(id, f"/docker/{self.owner}/{id}", self.owner))

    def _tell(self, news: GroupBorn | GroupGone) -> None:
        self._hands[-1]._hand.send.send_nowait(news)

    @property
    def is_alone(self) -> bool:
        """What the owner reads."""
        found = self.host.told(self.owner)
        return found is not None and found.alone


@asynccontextmanager
async def begun(make_host: Any) -> AsyncIterator[Inside]:
    """Run a daemon with an owner that is alone. Nothing but events and births leads to a look."""
    host: Host = make_host(version=2, reconcile_seconds=1000.0)
    hands = host.open_hands()
    async with host.running():
        inside = Inside(host, hands, await owned(host))
        assert inside.is_alone
        yield inside
    assert host.broken == []


async def test_an_owner_is_not_alone_before_the_program_begins(autojump_clock: MockClock, make_host: Any) -> None:
    """A start holds the lock that a look needs: the engine knows of the container, and shows no more. Once the look is
    there, it counts alone.
    """
    async with begun(make_host) as inside:
        new = await inside.host.docker.create("new")
        lock = inside.host.docker.container(new).lock
        await lock.acquire()
        inside.birth(new)
        await trio.sleep(SOON)
        assert not inside.is_alone
        await trio.sleep(1)
        shown = told(inside.host, inside.owner)
        assert shown is not None
        assert [each.name for each in shown.neighbours] in ([new[:12]], ["new"])
        assert shown.is_settled
        lock.release()
        await trio.sleep(1)
        # By the look it names no parent: it is elsewhere.
        assert inside.is_alone


async def test_its_end_gives_alone_back(autojump_clock: MockClock, make_host: Any) -> None:
    """Though its lock is held for as long as a tenant likes."""
    async with begun(make_host) as inside:
        new = await inside.host.docker.create("new")
        await inside.host.docker.container(new).lock.acquire()
        inside.birth(new)
        await trio.sleep(SOON)
        inside.end(new)
        await trio.sleep(SOON)
        assert inside.is_alone
        inside.host.docker.container(new).lock.release()


async def test_what_the_engine_does_not_know_takes_alone_from_nobody(autojump_clock: MockClock, make_host: Any) -> None:
    """An engine inside the owner starts one container after the other: the owner's file never changes."""
    async with begun(make_host) as inside:
        before = inside.host.told(inside.owner)
        inside.slow_down()
        for number in range(50):
            inside.birth(f"{number:064x}")
            for _ in range(20):
                await trio.sleep(0.001)
                assert inside.host.told(inside.owner) == before
            inside.end(f"{number:064x}")
        assert inside.is_alone
