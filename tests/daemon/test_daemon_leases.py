"""The whole daemon vouches for its projections: while it runs, hears its engine and decides."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.allocator import Allocator
from sidecar.observe.looks import Looker
from state.lease import NAME, RENEW_SECONDS
from state.projection import read
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
