"""Worlds for tests, made by the real decisions from a few containers."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.decide.facts import ContainerView, CpusetApplied, EngineConnected, EngineInfo, InventoryTaken, Phase
from sidecar.decide.orders import ApplyCpuset
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.model import State
from state.topology import Topology
from tests.support.decide.rights import EVERY_RIGHT

ENGINE = EngineInfo(
    name="docker", version="26.1.5", api_version="1.45", ncpu=8, cgroup_version="2", cgroup_driver="systemd"
)

STATIC = Settings(policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0), may=EVERY_RIGHT)


def container(name: str, **fields: object) -> ContainerView:
    """Return a running container; `exclusive="2"` is its label, other fields are those of a ContainerView."""
    labels: dict[str, str] = {}
    if "exclusive" in fields:
        labels["cpuset.exclusive"] = str(fields.pop("exclusive"))
    given = fields.pop("labels", {})
    assert isinstance(given, Mapping)
    values: dict[str, object] = {"phase": Phase.RUNNING, "started_at": "1", **fields, "labels": {**labels, **given}}
    id = name.encode().hex().ljust(64, "0")[:64]
    view: ContainerView = ContainerView(engine=ENGINE.name, id=id, name=name, **values)  # type: ignore[arg-type] # spelled in keywords
    return view


def world(machine: Topology, *views: ContainerView, settings: Settings = STATIC, answers: int = 1000) -> World:
    """Return the World after these containers were first seen, and after the first `answers` orders took effect."""
    made, orders = step(begin(State(), machine, settings), [EngineConnected(ENGINE, 0)])
    seen = tuple(view if view.effective or view.cpuset else _everywhere(view, machine) for view in views)
    made, orders = step(made, [InventoryTaken(seen, (), 1)])
    queue = [order for order in orders if isinstance(order, ApplyCpuset)]
    for ticket in range(answers):
        if not queue:
            break
        order = queue.pop(0)
        effective = order.update.cpus if order.live else None
        made, orders = step(made, [CpusetApplied(order.container, order.number, effective, ticket + 2)])
        queue += [order for order in orders if isinstance(order, ApplyCpuset)]
    return made


def _everywhere(view: ContainerView, machine: Topology) -> ContainerView:
    effective = machine.online if view.phase.is_live else None
    return ContainerView(**{**{f: getattr(view, f) for f in view.__struct_fields__}, "effective": effective})
