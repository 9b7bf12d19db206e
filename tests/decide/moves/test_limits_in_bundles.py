"""The limit that people asked for, where the engine shows what the runtime wrote into the bundle instead."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.facts import (
    ContainerSeen,
    ContainerView,
    CpusetApplied,
    EngineConnected,
    EngineInfo,
    GiveUpRequested,
    InventoryTaken,
    Phase,
    StartHeld,
)
from sidecar.decide.moves.settled import is_quota_lifted
from sidecar.decide.orders import AnswerStart, ApplyCpuset, Order
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from sidecar.decide.world import World
from sidecar.engines.traits_table import traits_of
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import Originals, State
from state.topology import uniform

ID = "a" * 64
KEY = ContainerKey("podman", ID)
ALL = CPUSet(range(4))
NANO = 1_000_000_000


def seen(**fields: Any) -> ContainerView:
    view = {"engine": "podman", "id": ID, "name": "own", "phase": Phase.RUNNING, "labels": {"cpuset.exclusive": "1"}}
    return ContainerView(**{**view, **fields})


def held(**fields: Any) -> ContainerView:
    return seen(phase=Phase.CREATED, runtime="cpuset", **fields)


def host(version: str) -> World:
    """Return a host with this Podman, and without containers."""
    info = EngineInfo(name="podman", version=version, api_version="4.0.0", ncpu=4, traits=traits_of("podman", version))
    settings = Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0))
    world, _ = step(begin(State(), uniform(cores=4), settings), (EngineConnected(info, 0),))
    return step(world, (InventoryTaken((), (), 1),))[0]


def answer(orders: tuple[Order, ...]) -> AnswerStart:
    return next(order for order in orders if isinstance(order, AnswerStart))


def ordered(orders: tuple[Order, ...]) -> ApplyCpuset:
    return next(order for order in orders if isinstance(order, ApplyCpuset))


@pytest.mark.parametrize("version", ["4.3.1", "5.4.2"])
@pytest.mark.parametrize(("quota", "period"), [(100_000, 100_000), (50_000, 50_000)])
def test_a_limit_that_only_the_bundle_showed_is_restored(version: str, quota: int, period: int) -> None:
    """It was lifted at the start, and every look since shows none. It is in the books before the answer."""
    bundle = held(cpu_quota=quota, cpu_period=period, is_glance=True)
    world, orders = step(host(version), (StartHeld(bundle, 7, 3),))
    assert world.state.originals[KEY] == Originals(nano_cpus=NANO, cpu_period=period)
    told = answer(orders).update
    assert told is not None
    assert told.cpu_quota == -1
    ran = seen(runtime="cpuset", cpuset=str(told.cpus), effective=told.cpus, cpu_period=period, cgroup_parent="/own")
    world, orders = step(world, (ContainerSeen(ran, 9),))
    assert world.state.originals[KEY].parent == "/own"
    assert ordered(orders).update.nano_cpus == 4 * NANO
    world, _ = step(world, (CpusetApplied(KEY, ordered(orders).number, told.cpus, 10),))
    assert is_quota_lifted(world, world.containers[KEY], world.state.assignments[KEY])
    world, orders = step(world, (GiveUpRequested(KEY),))
    assert ordered(orders).update.nano_cpus == NANO


def test_the_next_bundle_tells_what_a_look_after_a_run_does_not() -> None:
    """A Podman that forgets updates shows of a stopped container the bundle of its last start, and starts it with the
    limit with which it was created.
    """
    stopped = seen(phase=Phase.EXITED, runtime="cpuset", started_at="1", cpu_period=100_000, forgets_updates=True)
    world, _ = step(host("4.3.1"), (ContainerSeen(stopped, 3),))
    assert world.state.originals[KEY].nano_cpus == 0
    bundle = held(started_at="1", cpu_quota=100_000, cpu_period=100_000, forgets_updates=True)
    world, orders = step(world, (StartHeld(bundle, 7, 4),))
    told = answer(orders).update
    assert told is not None
    assert (told.cpu_quota, world.state.originals[KEY].nano_cpus) == (-1, NANO)


def test_the_bundle_of_an_engine_that_keeps_updates_may_have_the_limit_of_the_sidecar() -> None:
    """What is remembered stays."""
    first = seen(phase=Phase.CREATED, runtime="cpuset", nano_cpus=NANO, cpu_period=100_000)
    world, _ = step(host("5.4.2"), (ContainerSeen(first, 3),))
    world, _ = step(world, (StartHeld(held(cpu_quota=400_000, cpu_period=100_000), 7, 4),))
    assert world.state.originals[KEY].nano_cpus == NANO


def test_a_quota_in_the_bundle_of_docker_may_be_a_limit_in_cpus() -> None:
    """Docker shows which it is, and restores each in its own way only. So the first look is waited for."""
    docker = EngineInfo(name="docker", version="26.1", api_version="1.41", ncpu=4)
    settings = Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0))
    world, _ = step(begin(State(), uniform(cores=4), settings), (EngineConnected(docker, 0),))
    world, _ = step(world, (InventoryTaken((), (), 1),))
    bundle = held(engine="docker", cpu_quota=100_000, cpu_period=100_000, is_glance=True)
    world, orders = step(world, (StartHeld(bundle, 7, 3),))
    told, key = answer(orders).update, ContainerKey("docker", ID)
    assert told is not None
    assert (told.cpu_quota, world.state.originals) == (-1, {})
    ran = seen(engine="docker", runtime="cpuset", cpuset=str(told.cpus), effective=told.cpus, nano_cpus=NANO)
    world, _ = step(world, (ContainerSeen(ran, 9),))
    assert (world.state.originals[key].nano_cpus, world.state.originals[key].cpu_quota) == (NANO, 0)
