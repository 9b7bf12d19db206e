"""How many CPUs a container wants by its load (`cpuset.scale: load`): a band of use, with hysteresis.

With `u` the use in CPUs over the last period, `peak` the highest use, halved every half-life, m the number of CPUs
during the measurement, and n the number of CPUs now:

1. `low = ceil(u / high share)`: with fewer, each would be busier than the band allows.
2. `high = floor(max(u, peak) / low share)`: with more, each would be idler than the band allows. At least `low`.
3. Use cannot exceed the available CPUs. A container that is busy on all of m does not show what it would use with more,
   so it wants the largest size at which `u` is inside the band; if it needs no more, it stays there. A container that
   is not busy on all of m, but under CPU pressure, wants one more than m, up to `high`. Neither reaches beyond the
   band: the container would gain CPUs that the next step finds idle, again and again.
4. A throttled container uses less than it would without its quota: it does not shrink below m.
5. The wish is n, moved into the band: a container inside the band stays as it is.

Pressure and throttling refer to m, not to n. So the same load always gives the same wish, and only a new measurement
causes a new step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from sidecar.decide.facts import Load
from sidecar.decide.settings import Band, PolicyName
from sidecar.decide.world import World, replace
from state.demand import Demand, Scale
from state.key import ContainerKey
from state.model import Assignment, State

_BUSY: Final = 0.95
"""The share of its CPUs above which a container counts as busy on all of them: the rest is lost to task switching."""

_SLACK: Final = 1e-6
"""CPUs. Tolerance for rounding errors: 1.6 / 0.8 must be two CPUs."""


def wish_of(load: Load, cpus: int, demand: Demand, band: Band) -> int:
    """Return how many CPUs a container with `cpus` CPUs wants, between its floor and its ceiling."""
    # 1. and 2. The band.
    low = math.ceil(load.use / band.high - _SLACK)
    high = max(low, math.floor(max(load.use, load.peak) / band.low + _SLACK))
    # 3. Busy on all, or under pressure.
    if load.use >= load.cpus * _BUSY:
        low = max(low, math.floor(load.use / band.low + _SLACK))
    elif load.pressure > band.pressure and high > load.cpus:
        low = max(low, load.cpus + 1)
    # 4. Throttled.
    if load.is_throttled:
        high = max(high, load.cpus)
    # 5. The wish.
    return min(max(min(max(cpus, low), high), demand.floor), demand.ceiling)


def wished(assignment: Assignment, load: Load | None, band: Band) -> int:
    """Return how many CPUs a grant that follows its load wants.

    Without a known load that is its present number, but at least the number asked for if it never changed and was
    never measured: a restart of the sidecar forgets its load.
    """
    if load is None:
        is_new = not (assignment.moves or assignment.is_measured)
        return max(assignment.demand.cpus, len(assignment.cpus)) if is_new else len(assignment.cpus)
    return wish_of(load, len(assignment.cpus), assignment.demand, band)


def follows_load(world: World, container: ContainerKey) -> bool:
    """Return whether a container's size depends on its load."""
    assignment = world.state.assignments.get(container)
    if assignment is None or world.settings.policy is not PolicyName.DYNAMIC:
        return False
    return assignment.demand.scale is Scale.LOAD and assignment.demand.floor < assignment.demand.ceiling


def is_news(world: World, load: Load) -> bool:
    """Return whether this load leads to another wish than the last known load."""
    assignment = world.state.assignments.get(load.container)
    if assignment is None or load.container not in world.containers or not follows_load(world, load.container):
        return False
    band = world.settings.band
    return wished(assignment, world.loads.get(load.container), band) != wished(assignment, load, band)


def with_loads(world: World, loads: Iterable[Load]) -> World:
    """Return the world with these loads, except those of containers that are unknown, or whose size does not depend on
    them.
    """
    known = {
        load.container: load
        for load in loads
        if load.container in world.containers and follows_load(world, load.container)
    }
    return replace(world, loads={**world.loads, **known})


def with_loads_of_grants(world: World) -> World:
    """Return the world without the loads of grants that have ended: a new grant begins with the number asked for,
    whatever its container used before.
    """
    known = {key: load for key, load in world.loads.items() if key in world.state.assignments}
    return world if len(known) == len(world.loads) else replace(world, loads=known)


def with_measured(world: World, state: State) -> State:
    """Return the State that remembers which grants follow a load that is known: also after a restart, they keep their
    sizes until the next measurement.
    """
    for key in world.loads:
        grant = state.assignments.get(key)
        if grant is not None and grant.demand.scale is Scale.LOAD and not grant.is_measured:
            state = state.holding(replace(grant, is_measured=True))
    return state
