"""The whole daemon vouches for its projections: while it runs, hears its engine and decides."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.allocator import Allocator
from sidecar.observe.looks import Looker
from sidecar.projection import teller
from state.cpuset import CPUSet
from state.lease import NAME, RENEW_SECONDS
from state.projection import Projection, read
from tests.support.daemon.host import Host

pytestmark = pytest.mark.trio


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def is_vouched(host: Host, container: str) -> bool:
    return read(host.path / "cpus" / "by-id" / container[:12]).vouched


async def stuck(*_: object) -> None:
    await trio.sleep_forever()


async def is_renewed(host: Host, container: str) -> bool:
    """Return whether a lease that ran out counts again after three rounds. Files have the real clock."""
    lease = host.path / "cpus" / "by-id" / container[:12] / NAME
    os.utime(lease, (0, 0))
    await trio.sleep(3 * RENEW_SECONDS)
    return is_vouched(host, container)


async def test_it_vouches_while_it_runs_and_not_after_its_end(host: Host, autojump_clock: MockClock) -> None:
    async with host.running():
        rt = await host.docker.run("rt", labels={"cpuset.exclusive": "2"})
        await host.settled(rt)
        assert is_vouched(host, rt)
        assert await is_renewed(host, rt)
    assert not is_vouched(host, rt)
    assert read(host.path / "cpus" / "by-id" / rt[:12]).settled


async def test_it_vouches_for_what_it_found_only_after_it_looked(
    host: Host, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The files of the last run are those of another time."""
    async with host.running():
        rt = await host.docker.run("rt", labels={"cpuset.exclusive": "2"})
        await host.settled(rt)
    monkeypatch.setattr(Looker, "take_inventory", stuck)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.serve)
        await trio.sleep(3 * RENEW_SECONDS)
        assert not is_vouched(host, rt)
        nursery.cancel_scope.cancel()


async def test_an_engine_that_hangs_is_noticed_without_an_inventory(host: Host, autojump_clock: MockClock) -> None:
    """It keeps its connections: nothing tells that it is lost before an answer is overdue, here after 30 s."""
    async with host.running():
        rt = await host.docker.run("rt", labels={"cpuset.exclusive": "2"})
        await host.settled(rt)
        asked = host.engine.pings
        await trio.sleep(4 * RENEW_SECONDS)
        assert host.engine.pings - asked == 4
        host.engine.hangs = True
        await trio.sleep(2 * RENEW_SECONDS + 1)
        assert not await is_renewed(host, rt)


async def test_with_an_allocator_that_is_stuck_it_vouches_for_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """All other tasks run."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.serve)
        rt = await host.docker.run("rt", labels={"cpuset.exclusive": "2"})
        await host.settled(rt)
        assert await is_renewed(host, rt)
        monkeypatch.setattr(Allocator, "_take", stuck)
        await host.docker.run("other")
        await trio.sleep(2 * RENEW_SECONDS)
        assert not await is_renewed(host, rt)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def told_of_one_that_others_replace(
    host: Host, patch: pytest.MonkeyPatch, gone: str, other: str
) -> AsyncIterator[list[Projection]]:
    """Yield what the directory of the one that is gone says while the other is on its CPUs, and it is there still: as
    late as on a busy host.
    """
    own, told = host.file(gone), list[Projection]()
    assert own

    async def look() -> None:
        while True:
            if not own.isdisjoint(CPUSet.parse(host.where(other))) and (found := host.told(gone)):
                told.append(found)
            await trio.sleep(0.0005)

    patch.setattr(teller, "PAUSE", 0.5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        yield told
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("has_hand", [True, False], ids=["hand", "engine alone"])
@pytest.mark.parametrize("is_dead", [True, False], ids=["no daemon", "a daemon"])
async def test_what_is_gone_is_withdrawn_before_its_cpus_are_given_away(
    host: Host, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, *, has_hand: bool, is_dead: bool
) -> None:
    """Removed as it ran, or while no daemon did, of which the last lease counts still."""
    if has_hand:
        host.open_hands()
    told: list[Projection] = []
    async with host.running():
        rt = await host.docker.run("rt", labels={"cpuset.exclusive": "2"})
        plain = await host.docker.run("plain")
        await host.settled(rt)
        await trio.sleep(1)
        if not is_dead:
            async with told_of_one_that_others_replace(host, monkeypatch, rt, plain) as told:
                await host.docker.remove(rt)
                await host.until(lambda: host.told(rt) is None)
    if is_dead:
        (host.path / "cpus" / "by-id" / rt[:12] / NAME).write_text("")
        assert is_vouched(host, rt), "as after a kill"
        await host.docker.remove(rt)
        async with told_of_one_that_others_replace(host, monkeypatch, rt, plain) as told, host.running():
            await host.until(lambda: host.told(rt) is None)
    assert told
    assert not any(each.alone or each.settled or each.cpus for each in told)
