"""What a node can grant exclusively is what it then grants: counted before, and verified by granting it."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.books.room import capacity, free
from sidecar.decide.contacts import Ready
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.whatif import imagined, turns
from sidecar.decide.world import World, replace
from state.model import State
from state.topology import Topology, uniform
from tests.support.decide.contacts import with_readiness
from tests.support.decide.histories import MACHINES, STATIC
from tests.support.decide.stories import cpus, static


def node(machine: Topology, **settings: Any) -> World:
    return begin(State(), machine, static(**settings))


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({}, 7),
        ({"reserved_cpus": cpus("0-1")}, 6),
        ({"shared_min": 1}, 7),
        ({"shared_min": 3}, 5),
        ({"options": ("strict-cpu-reservation",)}, 6),
        ({"options": ("strict-cpu-reservation",), "shared_min": 3}, 4),
        ({"policy": PolicyName.NONE}, 0),
        ({"policy": PolicyName.DYNAMIC, "shared_min": 2}, 6),
    ],
)
def test_all_but_what_is_reserved_and_what_the_shared_pool_keeps(settings: dict[str, Any], most: int) -> None:
    """Of eight CPUs. Reserved ones are shared, and count for the pool, unless the reservation is strict."""
    assert capacity(node(uniform(cores=8), **settings)) == most


def test_by_whole_cores_only_whole_cores_count() -> None:
    """A reserved thread takes its sibling along, and a strict reservation leaves the pool one core more."""
    machine = uniform(cores=4, threads=2)
    assert capacity(node(machine, options=("full-pcpus-only",))) == 6
    assert capacity(node(machine, options=("full-pcpus-only", "strict-cpu-reservation"))) == 4


def test_isolated_cpus_cost_the_shared_pool_nothing() -> None:
    """If they are for exclusive containers: all of them count, and with `only` no others."""
    machine = replace(uniform(cores=8), isolated=cpus("4-7"))
    assert capacity(node(machine, isolated=IsolatedRule.ONLY, shared_min=4)) == 4
    assert capacity(node(machine, isolated=IsolatedRule.PREFER, shared_min=3)) == 5


def test_cpus_of_containers_pinned_by_hand_are_not_to_be_given() -> None:
    """And granted CPUs are no longer free, though they count."""
    world = imagined(State(), uniform(cores=8), static(), {"by hand": cpus("6-7")})
    assert (capacity(world), free(world)) == (5, 5)
    *_, granted = turns(world, [("rt", {"cpuset.exclusive": "2"})])
    assert (capacity(granted), free(granted)) == (5, 3)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
@pytest.mark.parametrize("settings", STATIC, ids=str)
def test_what_is_counted_can_be_given_and_no_more(machine: Topology, settings: Any) -> None:
    """One unit after the other, until a request is refused."""
    world = with_readiness(begin(State(), machine, settings), Ready(0))
    unit = machine.cpus_per_core if "full-pcpus-only" in settings.options else 1
    requests = [(f"c{n}", {"cpuset.exclusive": str(unit), "cpuset.numa": "none"}) for n in range(len(machine.online))]
    *_, after = turns(world, requests)
    given = after.state.exclusive
    assert len(given) == capacity(world)
    assert free(replace(world, state=after.state)) == 0
