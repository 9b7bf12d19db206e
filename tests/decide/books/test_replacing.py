"""CPUs for a grant that lost some: from which sources."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.replacing import replaced
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.demand import Demand
from state.model import State
from state.topology import uniform
from tests.support.keys import docker


def test_a_source_is_asked_for_only_if_those_before_it_do_not_suffice() -> None:
    """Free CPUs complete a grant: what others have above their fair size is not even computed."""
    machine = uniform(cores=8)
    state = State(policy="static", online=machine.online, reserved=CPUSet.of(0))
    world = World(state=state, topology=machine, settings=Settings(policy=PolicyName.STATIC))
    demand = Demand(container=docker("a" * 64), name="a", cpus=3)
    asked: list[str] = []

    def sources() -> Iterator[CPUSet]:
        asked.append("free")
        yield CPUSet.of(3)
        asked.append("above their fair size")
        yield CPUSet.of(4, 5)

    assert replaced(world, state, demand, CPUSet.of(1, 2), sources(), 3) == CPUSet.of(1, 2, 3)
    assert asked == ["free"]
