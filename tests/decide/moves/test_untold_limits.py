"""A CPU limit of which the engine tells by no event and no inspect: a look shows it, since the kernel does."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.facts import ContainerSeen, CpusetApplied
from sidecar.decide.orders import ApplyCpuset, Order
from sidecar.decide.step import step
from sidecar.decide.world import World
from sidecar.projection.projection_of import projection_of
from state.cpuset import CPUSet
from tests.decide.moves.test_limits_in_bundles import ALL, KEY, NANO, host, seen

LIFTED = 4 * NANO


def orders_in(orders: tuple[Order, ...]) -> list[ApplyCpuset]:
    return [order for order in orders if isinstance(order, ApplyCpuset)]


def owner(**fields: Any) -> tuple[World, CPUSet]:
    """Return a host on which one container has a CPU alone, and no limit."""
    view = seen(effective=ALL, cpu_period=100_000, forgets_updates=True, **fields)
    world, orders = step(host("4.3.1"), (ContainerSeen(view, 3),))
    (order,) = orders_in(orders)
    world, _ = step(world, (CpusetApplied(KEY, order.number, order.update.cpus, 4),))
    return world, order.update.cpus


@pytest.mark.parametrize("runtime", ["runc", "cpuset"])
def test_a_limit_that_people_set_is_lifted_and_it_is_not_alone_until_then(runtime: str) -> None:
    """The first look after that shows it."""
    world, cpus = owner(runtime=runtime)
    assert projection_of(world, world.containers[KEY]).alone
    now = {"cpuset": str(cpus), "effective": cpus, "nano_cpus": NANO // 2, "cpu_period": 100_000}
    limited = seen(runtime=runtime, forgets_updates=True, **now)
    world, orders = step(world, (ContainerSeen(limited, 5),))
    assert projection_of(world, world.containers[KEY]).alone is False
    (order,) = orders_in(orders)
    assert order.update.nano_cpus == LIFTED
    world, _ = step(world, (CpusetApplied(KEY, order.number, cpus, 6),))
    assert projection_of(world, world.containers[KEY]).alone
    assert world.state.originals[KEY].nano_cpus == 0
