"""The simulated engine's events: forgotten, lost, doubled, swapped, and late."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
import trio
from trio.testing import MockClock

from sidecar.ports import EngineEvent
from state.topology import uniform
from tests.support.engine.simulated import SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker
from tests.support.engine.simulated_events import BUFFER, PATIENCE_SECONDS, RING, Rates


def host() -> tuple[SimulatedDocker, SimulatedEngine]:
    docker = SimulatedDocker(uniform(cores=2), chance=Random(7))
    return docker, SimulatedEngine(docker)


async def waiting(engine: SimulatedEngine) -> list[EngineEvent]:
    """Return what a new stream has at once."""
    events: list[EngineEvent] = []
    async with engine.events() as stream:
        with trio.move_on_after(1):
            while True:
                events.append(await anext(stream))
    return events


@pytest.mark.trio
async def test_a_stream_begins_two_seconds_ago(autojump_clock: MockClock) -> None:
    """What happened between the last stream and this one comes again, if it is not too old."""
    docker, engine = host()
    await docker.create("old")
    await trio.sleep(3)
    young = await docker.create("young")
    assert [event.container for event in await waiting(engine)] == [young]


@pytest.mark.trio
async def test_noise_pushes_events_out_of_the_ring(autojump_clock: MockClock) -> None:
    """256 events of all kinds are remembered, whatever the filter."""
    docker, engine = host()
    one = await docker.create("one")
    await docker.make_noise(one, RING - 1)
    assert [event.action for event in await waiting(engine)] == ["create"]
    await docker.make_noise(one, 1)
    assert await waiting(engine) == []


@pytest.mark.trio
async def test_lost_doubled_and_swapped_on_demand(autojump_clock: MockClock) -> None:
    """A given number of the next events; one container's own events keep their order."""
    docker, engine = host()
    one, two = await docker.create("one"), await docker.create("two")
    await trio.sleep(3)
    faults = docker.event_faults

    async def told(*steps: tuple[str, str]) -> list[str]:
        """Return the containers in the order of delivery; each container's own events must be in order."""
        async with engine.events() as stream:
            for container, name in steps:
                await docker.rename(container, name)
            seen: list[EngineEvent] = []
            with trio.move_on_after(1):
                while True:
                    seen.append(await anext(stream))
        await trio.sleep(3)
        for container in (one, two):
            times = [event.time_nano for event in seen if event.container == container]
            assert times == sorted(times)
        return [event.container for event in seen]

    faults.lose_next = 1
    assert await told((one, "a"), (two, "b")) == [two]
    faults.double_next = 1
    assert await told((one, "c"), (two, "d")) == [one, one, two]
    faults.swap_next = 1
    assert await told((one, "e"), (two, "f")) == [two, one]
    faults.swap_next = 1
    assert await told((one, "g"), (one, "h"), (two, "i")) == [one, one, two]


@pytest.mark.trio
async def test_a_slow_reader_delays_everybody_and_loses_events(autojump_clock: MockClock) -> None:
    """Beyond its buffer each operation takes 100 ms longer, and the event is dropped in silence."""
    docker, engine = host()
    one = await docker.create("one")
    async with engine.events() as stream:
        for n in range(BUFFER - 1):
            await docker.rename(one, f"n{n}")
        began = trio.current_time()
        for n in range(5):
            await docker.rename(one, f"m{n}")
        assert trio.current_time() - began == pytest.approx(5 * PATIENCE_SECONDS)
        count = 0
        with trio.move_on_after(1):
            while True:
                await anext(stream)
                count += 1
    assert count == BUFFER


@pytest.mark.trio
async def test_chance_strikes_at_its_rate(autojump_clock: MockClock) -> None:
    """About this many are lost and doubled, the same ones each time."""
    counts = []
    for _ in range(2):
        docker, engine = host()
        one = await docker.create("one")
        docker.event_faults.rates = Rates(lost=0.2, doubled=0.1)
        async with engine.events() as stream:
            for n in range(500):
                await docker.rename(one, f"n{n}")
            seen: Counter[int] = Counter()
            with trio.move_on_after(1):
                while True:
                    seen[(await anext(stream)).time_nano] += 1
        counts.append((len(seen), seen.total()))
    assert counts[0] == counts[1]
    assert 350 < counts[0][0] < 450
    assert counts[0][0] + 20 < counts[0][1] < counts[0][0] + 70
