"""A half-removed container, as a killed engine leaves it, holds no CPU: it can neither start nor be moved."""

from __future__ import annotations

from sidecar.decide.facts import ContainerView, CpusetApplied, EngineConnected, EngineInfo, InventoryTaken, Phase
from sidecar.decide.moves.settled import is_settled
from sidecar.decide.orders import ApplyCpuset
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State
from state.topology import uniform

DEAD = ContainerKey("docker", "d" * 64)
LIVE = ContainerKey("docker", "a" * 64)
BOTH = CPUSet.of(0, 1)
LAST = CPUSet.of(1)


def test_a_dead_container_blocks_no_other() -> None:
    """It was on CPU 1 when the engine died: another container gets that CPU, and is alone there."""
    settings = Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0))
    world = begin(State(), uniform(cores=2), settings)
    dead = ContainerView(engine="docker", id=DEAD.id, name="dead", phase=Phase.DEAD, cpuset="1")
    asks = {"cpuset.exclusive": "1"}
    live = ContainerView(engine="docker", id=LIVE.id, name="live", phase=Phase.RUNNING, labels=asks, effective=BOTH)
    engine = EngineInfo(name="docker", version="26.1.5", api_version="1.45", ncpu=2)
    world, orders = step(world, (EngineConnected(engine, 0), InventoryTaken((dead, live), (), 1)))
    (order,) = (each for each in orders if isinstance(each, ApplyCpuset))
    assert (order.container, order.update.cpus) == (LIVE, LAST)
    world, orders = step(world, (CpusetApplied(LIVE, order.number, LAST, 2),))
    assert is_settled(world, world.containers[LIVE])
    assert not orders
