"""Brief containers cost the engine one look: what can wait until they have lasted waits, and nothing else does."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.moves.records import RECORD_SECONDS
from sidecar.observe.brief import MOST_SECONDS
from sidecar.observe.newcomers import FEW
from sidecar.status.document import ContainerStatus
from sidecar.status.status_file import read_status
from tests.daemon.test_daemon import TWO
from tests.support.daemon.host import Host

pytestmark = pytest.mark.trio


async def owned(host: Host) -> str:
    """Bring an owner, and wait until everything about it is done."""
    owner = await host.docker.run("owner", labels=TWO)
    await host.settled(owner)
    await trio.sleep(10)
    host.engine.inspects.clear()
    host.engine.updates.clear()
    return owner


async def passing(host: Host, name: str, seconds: float = 0.1) -> str:
    """Bring a plain container that runs for so long and is removed; return its id."""
    id = await host.docker.create(name)
    await host.docker.start(id)
    await trio.sleep(seconds)
    await host.docker.exit(id)
    await trio.sleep(0.1)
    await host.docker.remove(id)
    return id


def told(host: Host, id: str) -> ContainerStatus | None:
    """Return what the status says of a container."""
    return next((each for each in read_status(host.path / "state").containers if each.id == id), None)


async def test_a_brief_container_costs_one_look_and_no_update(autojump_clock: MockClock, host: Host) -> None:
    """Whether that look comes before its start or waits for it."""
    async with host.running():
        await owned(host)
        ids = [await passing(host, f"brief{number}") for number in range(FEW)]
        await trio.sleep(10)
        assert sorted(host.engine.inspects) == sorted(ids)
        assert host.engine.updates == []
        assert all(told(host, id) is None for id in ids)
    assert host.broken == []


async def test_one_that_lasts_is_recorded_and_shown(autojump_clock: MockClock, host: Host) -> None:
    """The engine's record and the status follow."""
    async with host.running():
        await owned(host)
        lasting = await host.docker.create("lasting")
        await host.docker.start(lasting)
        assert host.where(lasting) == "0,3-7"
        await trio.sleep(max(MOST_SECONDS, RECORD_SECONDS) + 1)
        assert host.configured(lasting) == "0,3-7"
        shown = told(host, lasting)
        assert shown is not None
        assert (shown.phase, shown.is_settled) == ("running", True)
    assert host.broken == []


async def test_one_that_only_exists_is_recorded(autojump_clock: MockClock, host: Host) -> None:
    """It may be started while there is no daemon."""
    async with host.running():
        await owned(host)
        created = await host.docker.create("created")
        await trio.sleep(RECORD_SECONDS + 1)
        assert host.configured(created) == "0,3-7"
    assert host.broken == []


async def test_one_that_ends_and_starts_again_is_looked_at_now_and_then(autojump_clock: MockClock, host: Host) -> None:
    """Not at each turn, and at least every few seconds."""
    async with host.running():
        await owned(host)
        restless = await host.docker.run("restless")
        await trio.sleep(10)
        host.engine.inspects.clear()
        began = trio.current_time()
        for _ in range(30):
            await host.docker.exit(restless)
            await host.docker.start(restless)
        await trio.sleep(MOST_SECONDS + 1)
        assert 1 <= len(host.engine.inspects) <= (trio.current_time() - began) / MOST_SECONDS + 2
        shown = told(host, restless)
        assert shown is not None
        assert shown.phase == "running"
    assert host.broken == []


async def test_an_owner_is_looked_at_at_once(autojump_clock: MockClock, host: Host) -> None:
    """Its start and its end wait for nothing, and newcomers are out of its way while they are not looked at."""
    async with host.running():
        await owned(host)
        new = await host.docker.create("new")
        await host.docker.start(new)
        began = trio.current_time()
        second = await host.docker.run("second", labels=TWO)
        await host.settled(second)
        assert trio.current_time() - began < 1
        assert host.where(new) == "0,5-7"
    assert host.broken == []
