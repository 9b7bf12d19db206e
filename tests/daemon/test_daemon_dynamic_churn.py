"""The whole daemon under `dynamic`, with programs that follow their files or not: no CPU is taken unannounced."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import MockClock

from sidecar.failures import EngineUnavailable
from state.topology import uniform
from tests.support.daemon.dynamic_churn import DynamicChurn, at_rest
from tests.support.daemon.elastic import ElasticHost
from tests.support.engine.simulated_docker import EnginePace
from tests.support.soaking import MORE_SEEDS

pytestmark = pytest.mark.trio

MACHINES = (
    uniform(cores=6),
    uniform(cores=4, threads=2),
    uniform(cores=12),
    uniform(packages=2, cores=3, threads=2, adjacent=True),
)

Patch = pytest.MonkeyPatch


def host_of(path: Path, patch: Patch, nursery: trio.Nursery, seed: int) -> ElasticHost:
    chance = Random(seed)
    machine = chance.choice(MACHINES)
    whole = len(machine.cores) < len(machine.online) and chance.random() < 0.3
    return ElasticHost(
        path,
        patch,
        nursery,
        machine=machine,
        seed=seed,
        version=chance.choice([1, 2]),
        # Also an engine that is faster than the writing of files.
        pace=chance.choice([None, EnginePace(apply=0, store=0)]),
        live_restore=chance.random() < 0.5,
        linger_seconds=chance.choice([0.0, 2.0, 10.0]),
        grace_seconds=chance.choice([0.0, 1.0, 2.0]),
        cooldown_seconds=chance.choice([0.0, 1.0, 10.0]),
        **({"options": ("full-pcpus-only",), "reserved": None, "reserved_count": 2} if whole else {}),
    )


async def play(
    path: Path, patch: Patch, seed: int, steps: int, *, kills: bool, takes_offline: bool = False
) -> list[str]:
    """Play one history; return everything that was wrong with it."""
    async with trio.open_nursery() as programs:
        host = host_of(path, patch, programs, seed)
        chance = Random(seed + 2)
        events = DynamicChurn(host, Random(seed + 1), takes_offline=takes_offline)
        if kills:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_keep_dying, host, chance)
                await events.run(steps)
                nursery.cancel_scope.cancel()
            host.engine.cut()
        async with host.running():
            if not kills:
                await events.run(steps)
            await events.rest()
            found = await at_rest(host)
        assert host.last is not None
        found += [] if host.replayed() == host.last.latest else ["the replayed journal gives another world"]
        programs.cancel_scope.cancel()
    return [*host.broken, *found]


async def _keep_dying(host: ElasticHost, chance: Random) -> None:
    """Kill daemons at random moments, and in the middle of takes, and start the next one each time."""
    while True:
        if not host.docker.is_up:
            await trio.sleep(0.5)
            continue
        try:
            await host.serve_until(_death(host, chance))
        except* EngineUnavailable:
            pass
        await trio.sleep(chance.choice([0, 0.01, 1]))


def _death(host: ElasticHost, chance: Random) -> Callable[[], Awaitable[None]]:
    async def in_a_take() -> None:
        with trio.move_on_after(15):
            while not host.waits():  # noqa: ASYNC110 - whatever begins one
                await trio.sleep(0.01)
        await trio.sleep(chance.choice([0, 0.001, 0.1, 1, 1.99]))

    async def at_random() -> None:
        await trio.sleep(chance.choice([0.005, 0.02, 0.2, 1, 7, 20]))

    return chance.choice([in_a_take, in_a_take, at_random])


@pytest.mark.parametrize("seed", range(2))
async def test_churn(autojump_clock: MockClock, tmp_path: Path, monkeypatch: Patch, seed: int) -> None:
    """Whatever users, programs and faults do: CPUs leave with the promised notice; all comes to rest."""
    found = await play(tmp_path, monkeypatch, seed, 40, kills=False)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", range(3))
async def test_churn_with_kills(autojump_clock: MockClock, tmp_path: Path, monkeypatch: Patch, seed: int) -> None:
    """A daemon that is killed in the middle of a take: its promises hold, and acknowledgements count."""
    found = await play(tmp_path, monkeypatch, seed, 40, kills=True)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", range(1))
async def test_churn_while_cpus_come_and_go(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: Patch, seed: int
) -> None:
    """A CPU that goes offline comes without notice; all others leave with notice."""
    found = await play(tmp_path, monkeypatch, seed, 40, kills=False, takes_offline=True)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MORE_SEEDS)
async def test_more_churn(autojump_clock: MockClock, tmp_path: Path, monkeypatch: Patch, seed: int) -> None:
    """The same for many seeds, each in one of the three ways."""
    found = await play(tmp_path, monkeypatch, seed, 60, kills=seed % 3 == 0, takes_offline=seed % 3 == 1)
    assert not found, "\n".join(found)
