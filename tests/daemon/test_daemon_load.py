"""The whole daemon on the simulated engine: containers whose size follows their load, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.settings import PolicyName
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.daemon.host import Host

ELASTIC = {"cpuset.exclusive": "2", "cpuset.min": "1", "cpuset.max": "6", "cpuset.scale": "load"}

pytestmark = pytest.mark.trio


@pytest.fixture
def make_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(**options: Any) -> Host:
        return Host(tmp_path, monkeypatch, **{"policy": PolicyName.DYNAMIC, "machine": uniform(cores=8), **options})

    return make


def size(host: Host, container: str) -> int:
    return len(CPUSet.parse(host.where(container)))


async def test_a_container_grows_with_its_load_and_gives_back(autojump_clock: MockClock, make_host: Any) -> None:
    """Up within some periods of a rise, as far as the band asks and no farther; down once the peak has faded, not
    below its floor; and nothing moves while its use is steady.
    """
    host = make_host()
    plain = await host.docker.run("plain")
    async with host.running():
        busy = await host.docker.run("busy", labels=ELASTIC)
        await host.settled(busy)
        assert size(host, busy) == 2
        host.docker.kernel.keep_busy(busy, 3.5)
        await host.until(lambda: size(host, busy) == 5, seconds=20)
        updates = len(host.engine.updates)
        await trio.sleep(300)
        assert size(host, busy) == 5
        assert len(host.engine.updates) == updates
        host.docker.kernel.keep_busy(busy, 0.1)
        await host.until(lambda: size(host, busy) == 1, seconds=200)
        await host.until(lambda: size(host, plain) == 7, seconds=5)
        updates = len(host.engine.updates)
        await trio.sleep(300)
        assert len(host.engine.updates) == updates
    assert host.broken == []


async def test_a_peak_is_remembered_through_a_lull(autojump_clock: MockClock, make_host: Any) -> None:
    """A bursty load does not make CPUs come and go: lulls shorter than a half-life take no CPU."""
    host = make_host()
    async with host.running():
        busy = await host.docker.run("busy", labels=ELASTIC)
        await host.settled(busy)
        host.docker.kernel.keep_busy(busy, 4.0)
        await host.until(lambda: size(host, busy) >= 5, seconds=30)
        await trio.sleep(30)
        updates = len(host.engine.updates)
        for _ in range(10):
            host.docker.kernel.keep_busy(busy, 0.0)
            await trio.sleep(20)
            host.docker.kernel.keep_busy(busy, 4.0)
            await trio.sleep(20)
        assert len(host.engine.updates) == updates


async def test_a_steady_load_is_not_written_down_again_and_again(autojump_clock: MockClock, make_host: Any) -> None:
    """Only a load that asks for another size becomes a fact: the journal does not grow by measuring."""
    host = make_host()

    def measurements() -> int:
        journals = (host.path / "state").glob("*journal*")
        return sum(path.read_text().count('"LoadMeasured"') for path in journals if path.is_file())

    async with host.running():
        busy = await host.docker.run("busy", labels=ELASTIC)
        await host.settled(busy)
        host.docker.kernel.keep_busy(busy, 3.5)
        await trio.sleep(100)
        written = measurements()
        assert 1 <= written <= 4
        await trio.sleep(1000)
        assert measurements() == written


async def test_a_restart_of_the_sidecar_changes_no_size(autojump_clock: MockClock, make_host: Any) -> None:
    """Its measurements are gone, but no container grows and shrinks again for that."""
    host = make_host()
    async with host.running():
        idle = await host.docker.run("idle", labels=ELASTIC)
        await host.settled(idle)
        host.docker.kernel.keep_busy(idle, 0.1)
        await host.until(lambda: size(host, idle) == 1, seconds=200)
        await trio.sleep(20)
    updates = len(host.engine.updates)
    async with host.running():
        await trio.sleep(100)
        assert size(host, idle) == 1
    assert len(host.engine.updates) == updates


async def test_whole_cores_grow_from_one_to_two(autojump_clock: MockClock, make_host: Any) -> None:
    """Where sizes are whole cores, a wish for part of one more is a wish for one more."""
    host = make_host(machine=uniform(cores=8, threads=2), reserved_count=2, options=("full-pcpus-only",))
    async with host.running():
        busy = await host.docker.run("busy", labels={**ELASTIC, "cpuset.min": "2", "cpuset.max": "7"})
        await host.settled(busy)
        assert size(host, busy) == 2
        host.docker.kernel.keep_busy(busy, 8.0)
        await host.until(lambda: size(host, busy) == 4, seconds=20)
        await host.until(lambda: size(host, busy) == 6, seconds=20)
        await trio.sleep(100)
        assert size(host, busy) == 6
    assert host.broken == []
