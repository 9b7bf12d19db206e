"""How long decisions take: `make bench`. Figures and what they are compared with stand in docs/performance.md."""

from __future__ import annotations

import random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sidecar.decide.facts import ContainerSeen, ContainerView, EngineConnected, EngineInfo, InventoryTaken, Phase
from sidecar.decide.placement.packed import packed
from sidecar.decide.reconcile import begin
from sidecar.decide.reducer import step
from sidecar.decide.world import PolicyName, Settings, World
from state.cpuset import CPUSet
from state.model import State
from state.topology import Topology, uniform

MACHINES = {
    "2": uniform(cores=2),
    "96": uniform(packages=2, cores=24, threads=2),
    "256": uniform(packages=2, nodes=4, cores=16, threads=2),
    "1024": uniform(packages=16, nodes=4, cores=8, threads=2),
}


def fragmented(machine: Topology, seed: int = 7) -> CPUSet:
    """A random half of the machine."""
    rng = random.Random(seed)
    return CPUSet(cpu for cpu in machine.online if rng.random() < 0.5)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES.keys())
@pytest.mark.parametrize("free", ["idle", "fragmented"])
def test_packed_placement(benchmark: BenchmarkFixture, machine: Topology, free: str) -> None:
    """Eight CPUs, or as many as there are, out of an idle machine or a random half of it."""
    available = machine.online if free == "idle" else fragmented(machine)
    count = min(8, len(available))
    chosen = benchmark(packed, machine, available, count)
    assert chosen is not None
    assert len(chosen) == count


def crowded(containers: int) -> World:
    """A ready world of a 256-CPU machine with so many shared containers."""
    settings = Settings(policy=PolicyName.STATIC, reserved_count=2)
    world = begin(State(), MACHINES["256"], settings)
    engine = EngineInfo(name="bench", version="0", api_version="1.41", ncpu=256)
    views = tuple(
        ContainerView(
            id=f"{n:064x}", name=f"c{n}", phase=Phase.RUNNING, effective=MACHINES["256"].online, started_at="1"
        )
        for n in range(containers)
    )
    world, _ = step(world, [EngineConnected(engine), InventoryTaken(views, (), 1)])
    return world


@pytest.mark.parametrize("containers", [50, 500])
def test_a_whole_step_for_an_arrival(benchmark: BenchmarkFixture, containers: int) -> None:
    """An exclusive container is created among so many shared ones: grant, books, and the first orders."""
    world = crowded(containers)
    labels = {"cpuset.exclusive": "8"}
    arrival = ContainerSeen(ContainerView(id="f" * 64, name="arrival", phase=Phase.CREATED, labels=labels), 2)
    after, orders = benchmark(step, world, [arrival])
    assert len(after.state.assignments) == 1
    assert orders
