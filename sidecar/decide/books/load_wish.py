"""How many CPUs a container wants by what it does (`cpuset.scale: load`): a band of use, and some hysteresis.

With `u` the use in CPUs over the last period, `peak` the highest use, halved every half-life, m the CPUs that it was
measured on, and n those that it has now:

1. `low = ceil(u / high share)`: with fewer, each would be busier than the band allows.
2. `high = floor(max(u, peak) / low share)`: with more, each would be idler than the band allows. At least `low`.
3. Use cannot exceed what there is. Who is busy on all of m shows nothing of what it would use with more, so it is given
   the most at which `u` is inside the band: if it needs no more than that, it stays there. CPU pressure without that
   asks for one more than m, as far as `high` allows. Beyond the band neither is believed, or it would take CPUs that a
   step later would be found idle, again and again.
4. Who was throttled shows less use than it would have: it does not shrink below m.
5. The wish is n, moved into the band: whoever is inside stays as it is.

Pressure and throttling speak of m, not of n: so the same load asked about twice gives the same wish, and only another
measurement makes another step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from sidecar.decide.facts import Load
from sidecar.decide.settings import Band, PolicyName
from sidecar.decide.world import World, replace
from state.key import ContainerKey
from state.model import Assignment, Demand, Scale

_BUSY: Final = 0.95
"""The share of its CPUs from which on a container counts as busy on all of them: the rest is the switching of tasks."""

_SLACK: Final = 1e-6
"""CPUs. 1.6 / 0.8 is two CPUs, whatever floating point makes of it."""


def wish_of(load: Load, cpus: int, demand: Demand, band: Band) -> int:
    """How many CPUs it wants that has `cpus` of them, between its floor and its ceiling."""
    # 1. and 2. The band.
    low = math.ceil(load.use / band.high - _SLACK)
    high = max(low, math.floor(max(load.use, load.peak) / band.low + _SLACK))
    # 3. What cannot be seen.
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
    """What a grant that follows its load wants. Until its load is known: as many as it began with; or, where they were
    changed since, as many as it has.
    """
    if load is None:
        return len(assignment.cpus) if assignment.moves else max(assignment.demand.cpus, len(assignment.cpus))
    return wish_of(load, len(assignment.cpus), assignment.demand, band)


def follows_load(world: World, container: ContainerKey) -> bool:
    """Whether a container's load matters."""
    assignment = world.state.assignments.get(container)
    if assignment is None or world.settings.policy is not PolicyName.DYNAMIC:
        return False
    return assignment.demand.scale is Scale.LOAD and assignment.demand.floor < assignment.demand.ceiling


def is_news(world: World, load: Load) -> bool:
    """Whether this load asks for anything else than what is known already."""
    assignment = world.state.assignments.get(load.container)
    if assignment is None or load.container not in world.containers or not follows_load(world, load.container):
        return False
    band = world.settings.band
    return wished(assignment, world.loads.get(load.container), band) != wished(assignment, load, band)


def with_loads(world: World, loads: Iterable[Load]) -> World:
    """The world once these loads are known."""
    known = {load.container: load for load in loads if load.container in world.containers}
    return replace(world, loads={**world.loads, **known})
