"""The duration of decisions: `make bench`. docs/performance.md has the figures and their comparisons."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sidecar.decide.facts import ContainerSeen, ContainerView, EngineConnected, EngineInfo, InventoryTaken, Phase
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from sidecar.decide.world import World
from state.model import State
from state.topology import uniform

MACHINE = uniform(packages=2, nodes=4, cores=16, threads=2)
"""256 CPUs on 8 nodes."""


ELASTIC = {"cpuset.exclusive": "2", "cpuset.min": "1", "cpuset.max": "20"}


def crowded(containers: int, *, elastic: int = 0) -> World:
    """Return a ready World of a 256-CPU machine with this many containers, some of them elastic under `dynamic`."""
    settings = Settings(policy=PolicyName.DYNAMIC if elastic else PolicyName.STATIC, reserved_count=2)
    world = begin(State(), MACHINE, settings)
    engine = EngineInfo(name="bench", version="0", api_version="1.41", ncpu=256)
    views = tuple(
        ContainerView(
            id=f"{n:064x}",
            name=f"c{n}",
            phase=Phase.RUNNING,
            effective=MACHINE.online,
            started_at="1",
            labels=ELASTIC if n < elastic else {},
        )
        for n in range(containers)
    )
    world, _ = step(world, [EngineConnected(engine, 0), InventoryTaken(views, (), 1)])
    return world


@pytest.mark.parametrize("containers", [50, 500])
def test_a_whole_step_for_an_arrival(benchmark: BenchmarkFixture, containers: int) -> None:
    """An exclusive container is created among this many shared ones: grant, State, and the first orders."""
    world = crowded(containers)
    labels = {"cpuset.exclusive": "8"}
    arrival = ContainerSeen(ContainerView(id="f" * 64, name="arrival", phase=Phase.CREATED, labels=labels), 2)
    after, orders = benchmark(step, world, [arrival])
    assert len(after.state.assignments) == 1
    assert orders


@pytest.mark.parametrize("containers", [50, 500])
def test_a_whole_step_that_takes_cpus_back(benchmark: BenchmarkFixture, containers: int) -> None:
    """The same with forty elastic containers that hold all spare CPUs: sizes, takes, and the timers of their notice."""
    world = crowded(containers, elastic=40)
    arrival = ContainerView(id="f" * 64, name="arrival", phase=Phase.CREATED, labels={"cpuset.exclusive": "8"})
    after, orders = benchmark(step, world, [ContainerSeen(arrival, 2)])
    assert len(after.state.assignments) == 41
    assert sum(grant.leaving is not None for grant in after.state.assignments.values()) > 0
    assert orders
