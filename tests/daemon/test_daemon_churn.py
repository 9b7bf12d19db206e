"""The whole daemon under churn and faults, crashed and restarted: no overlap, nothing lost, nothing left undone."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import trio
from trio.testing import MockClock

from sidecar.failures import EngineUnavailable
from state.topology import uniform
from tests.support.daemon.churn import Churn, unfinished
from tests.support.daemon.host import Host
from tests.support.soaking import MORE_SEEDS

pytestmark = pytest.mark.trio

MACHINES = (uniform(cores=4), uniform(cores=4, threads=2), uniform(packages=2, cores=3, threads=2, adjacent=True))


def host_of(path: Path, patch: pytest.MonkeyPatch, seed: int) -> Host:
    chance = Random(seed)
    return Host(
        path,
        patch,
        machine=chance.choice(MACHINES),
        seed=seed,
        version=chance.choice([1, 2]),
        live_restore=chance.random() < 0.5,
        linger_seconds=chance.choice([0.0, 2.0, 10.0]),
    )


async def churn(host: Host, seed: int, steps: int, *, takes_offline: bool = False) -> None:
    """Run random verbs with a daemon that is never restarted."""
    chance = Random(seed + 1)
    events = Churn(host, chance, takes_offline=takes_offline)
    async with host.running():
        await events.run(steps)
        await events.rest()
        see_that_all_is_well(host)


async def churn_with_crashes(host: Host, seed: int, steps: int) -> None:
    """Run the same, with a daemon that dies at random moments and is started again on the same State."""
    chance = Random(seed + 2)
    events = Churn(host, Random(seed + 1))
    async with trio.open_nursery() as nursery:
        finished = trio.Event()

        async def daemons() -> None:
            while not finished.is_set():
                if not host.docker.is_up:
                    await trio.sleep(0.5)
                    continue
                with trio.move_on_after(chance.choice([0.005, 0.02, 0.2, 1, 7])):
                    async with trio.open_nursery() as life:
                        life.start_soon(_serve_until_down, host)
                await trio.sleep(chance.choice([0, 0.01, 1]))

        nursery.start_soon(daemons)
        await events.run(steps)
        finished.set()
    async with host.running():
        await events.rest()
        see_that_all_is_well(host)


def see_that_all_is_well(host: Host) -> None:
    """Check that nothing was ever wrong, and nothing is left to do."""
    found = [*host.broken, *unfinished(host)]
    assert not found, "\n".join(found)


async def _serve_until_down(host: Host) -> None:
    """Serve; the engine may be down at the very start, then the daemon ends, as its supervisor sees it."""
    try:
        await host.serve()
    except* EngineUnavailable:
        pass


@pytest.mark.parametrize("seed", range(5))
async def test_churn(autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whatever users and faults do: settled containers are apart at every change, and files are never ahead of the
    truth.
    """
    await churn(host_of(tmp_path, monkeypatch, seed), seed, 40)


@pytest.mark.parametrize("seed", range(3))
async def test_churn_with_crashes(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A daemon that dies at random moments, also with outstanding orders, begins again from its State and loses
    nothing.
    """
    await churn_with_crashes(host_of(tmp_path, monkeypatch, seed), seed, 40)


@pytest.mark.parametrize("seed", range(2))
async def test_churn_while_a_cpu_goes_offline(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Grants are completed from the remaining CPUs, or refused; the State fits the machine as it is."""
    await churn(host_of(tmp_path, monkeypatch, seed), seed, 40, takes_offline=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", MORE_SEEDS)
async def test_more_churn(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The same for many seeds, each in one of the three ways."""
    host = host_of(tmp_path, monkeypatch, seed)
    if seed % 3 == 0:
        await churn_with_crashes(host, seed, 60)
    else:
        await churn(host, seed, 60, takes_offline=seed % 3 == 1)
