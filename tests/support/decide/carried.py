"""States that are carried over to other settings and to a machine with fewer CPUs, as input for laws."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sidecar.decide.books.refit import refit
from sidecar.decide.contacts import Ready
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import Settings
from sidecar.decide.world import Note, World
from state.cpuset import CPUSet
from state.model import State
from state.topology import Topology, with_online
from tests.support.decide.asked import asking
from tests.support.decide.contacts import with_readiness
from tests.support.decide.histories import MACHINES, SETTINGS

Carried = tuple[State, Topology, Settings]
"""Books, and what they were fitted to."""


def refitted(state: State, machine: Topology, settings: Settings) -> tuple[State, tuple[Note, ...]]:
    """Fit a State to a machine and settings, with no container known."""
    return refit(World(state=state, topology=machine, settings=settings))


def carried_over(
    machine: Topology, before: Settings, after: Settings, sizes: Sequence[tuple[int, int]], offline: CPUSet
) -> Carried:
    """Grant containers what they ask for, from a floor up, under some settings; then change the settings, and take CPUs
    away.
    """
    _, world = fitted(machine, before, after, sizes, offline)
    return world.state, world.topology, world.settings


def fitted(
    machine: Topology, before: Settings, after: Settings, sizes: Sequence[tuple[int, int]], offline: CPUSet
) -> tuple[State, World]:
    """Return the State before that, and the world after it."""
    requests = [
        (f"c{n}", {"cpuset.exclusive": str(count), "cpuset.min": str(min(floor, count)), "cpuset.max": "99"})
        for n, (floor, count) in enumerate(sizes)
    ]
    world = asking(with_readiness(begin(State(), machine, before), Ready(0)), requests)
    left = with_online(machine, machine.online - offline or machine.online)
    return world.state, begin(world.state, left, after)


def some_carried_over(seed: int) -> Carried:
    """Draw one of these from a seed."""
    _, world = some_fitted(seed)
    return world.state, world.topology, world.settings


def some_fitted(seed: int) -> tuple[State, World]:
    """Draw the same from a seed."""
    rng = random.Random(seed)
    machine = rng.choice(MACHINES)
    sizes = [(rng.randint(1, 3), rng.randint(1, 4)) for _ in range(rng.randint(1, 5))]
    offline = CPUSet(cpu for cpu in machine.online if rng.random() < 0.1)
    return fitted(machine, rng.choice(SETTINGS), rng.choice(SETTINGS), sizes, offline)
