"""A cpuset that is the sidecar's own is no pin of people: what a runtime wrote, and what was copied."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.container.container import Standing
from sidecar.decide.facts import (
    ContainerSeen,
    ContainerView,
    EngineConnected,
    EngineInfo,
    InventoryTaken,
    Phase,
    StartHeld,
)
from sidecar.decide.orders import AnswerStart
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings, TenantRight
from sidecar.decide.step import step
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.model import State
from state.topology import uniform

ENGINE = EngineConnected(EngineInfo(name="podman", version="5.4.2", api_version="4.0.0", ncpu=4), 0)
ALL = CPUSet(range(4))


def seen(name: str, **fields: Any) -> ContainerView:
    view = {"engine": "podman", "id": name * 64, "name": name, "phase": Phase.RUNNING, "effective": ALL}
    return ContainerView(**{**view, **fields})


@pytest.fixture(params=[(), (TenantRight.PIN,)], ids=["may not pin", "may pin"])
def world(request: pytest.FixtureRequest) -> World:
    """Return a host on which `a` has CPU 1 to itself, and the shared pool is 0,2-3."""
    settings = Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0), may=request.param)
    world, _ = step(begin(State(), uniform(cores=4), settings), (ENGINE, InventoryTaken((), (), 1)))
    world, _ = step(world, (ContainerSeen(seen("a", labels={"cpuset.exclusive": "1"}), 2),))
    assert str(world.state.shared) == "0,2-3"
    return world


def own(world: World, name: str) -> str | None:
    """Return the cpuset that is remembered as a container's own; None if it is pinned by hand, and never moved."""
    key = next(key for key in world.containers if key.id == name * 64)
    originals = world.state.originals.get(key)
    return originals.cpuset if originals else None


@pytest.mark.parametrize("cpuset", ["0,2-3", "1"])
def test_what_was_copied_from_another_container_is_no_pin(cpuset: str, world: World) -> None:
    """Its command names no cpuset, and it has the pool's CPUs, or an owner's."""
    world, _ = step(world, (ContainerSeen(seen("c", cpuset=cpuset, names_no_cpuset=True), 3),))
    assert own(world, "c") == ""
    container = next(each for each in world.containers.values() if each.view.name == "c")
    assert (container.wish.standing, container.wish.pin) == (Standing.MANAGED, CPUSet())
    assert world.strangers == CPUSet()


@pytest.mark.parametrize(("cpuset", "names_no_cpuset"), [("0,2-3", False), ("2-3", True)])
def test_a_pin_of_people_stays_one(cpuset: str, names_no_cpuset: bool, world: World) -> None:
    """By the command that created it, or by an update of other CPUs."""
    world, _ = step(world, (ContainerSeen(seen("c", cpuset=cpuset, names_no_cpuset=names_no_cpuset), 3),))
    assert own(world, "c") == (None if world.settings.may else cpuset)


@pytest.mark.parametrize("bundle", ["", "2-3"])
def test_what_a_runtime_wrote_is_no_pin(bundle: str, world: World) -> None:
    """Its engine shows the bundle's CPUs. What was there before the answer is its own."""
    held = seen("s", phase=Phase.CREATED, effective=None, cpuset=bundle, runtime="cpuset", is_glance=True)
    world, orders = step(world, (StartHeld(held, 7, 3),))
    answer = next(order for order in orders if isinstance(order, AnswerStart))
    if bundle and world.settings.may:
        assert answer.update is None
        return
    assert answer.update is not None
    cpus = answer.update.cpus
    ran = seen("s", cpuset=str(cpus), effective=cpus, runtime="cpuset", started_at="1")
    world, _ = step(world, (ContainerSeen(ran, 9),))
    assert own(world, "s") == bundle
