"""Which CPUs come and go when a grant changes its size: near what it has, and back as they came.

A shrink gives up the layers that came last, and in each what lies farthest from the original set, whole cores
together: so cores and caches come back whole, and the original set is never touched.

A growth takes first what is still leaving it (that cancels the take), then the nearest by core, cache, node and socket.
It stays of the kind that the grant has: the kinds of cores, isolated or not, and the NUMA nodes where its rule binds it
to few.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.grants import options_of
from sidecar.decide.books.room import room_in
from sidecar.decide.books.sizes import unit_of
from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.settings import IsolatedRule
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet, union
from state.model import Assignment, NumaRule, State
from state.topology import Topology


def given_up(topology: Topology, assignment: Assignment, count: int) -> CPUSet:
    """The `count` CPUs that a grant gives up; all that it may, where there are not so many above its floor."""
    lost = EMPTY
    for layer in reversed(assignment.layers):
        for tier in reversed(tuple(around(topology, layer, assignment.original))):
            if amount := min(count - len(lost), len(tier)):
                lost |= _last_of(topology, tier, amount)
        if len(lost) == count:
            break
    return lost


def _last_of(topology: Topology, cpus: CPUSet, count: int) -> CPUSet:
    """`count` of these: as many of one core together as there are, the highest first; then single ones."""
    cores = list(dict.fromkeys(topology.core_of[cpu].cpus & cpus for cpu in reversed(list(cpus))))
    chosen = EMPTY
    for part in sorted(cores, key=len, reverse=True):
        if len(part) <= count - len(chosen):
            chosen |= part
    rest = [cpu for part in sorted(cores, key=len) for cpu in part - chosen]
    return chosen | CPUSet(rest[: count - len(chosen)])


def gained(world: World, state: State, assignment: Assignment, count: int) -> CPUSet:
    """Up to `count` CPUs that a grant can have besides, as many as there are."""
    unit = unit_of(world, assignment.demand)
    tiers = _in_turn(world, eligible(world, state, assignment, unit), assignment)
    chosen = beside(world.topology, tiers, count, options_of(world, assignment.demand), unit=unit)
    room = room_in(world, state)
    while chosen and room.objection(chosen) is not None:
        chosen = packed(world.topology, chosen, max(0, len(chosen) - unit)) or EMPTY
    return chosen


def eligible(world: World, state: State, assignment: Assignment, unit: int) -> CPUSet:
    """The CPUs that a grant could grow by: free, of the kind that it has, where its rule binds it; by whole units."""
    topology = world.topology
    free = state.assignable - world.strangers
    if world.settings.isolated is IsolatedRule.ONLY:
        free &= topology.isolated
    if topology.kinds:
        free &= union(kind.cpus for kind in topology.kinds if not kind.cpus.isdisjoint(assignment.cpus))
    if is_bound(world, assignment):
        free &= union(node.cpus for node in topology.nodes if not node.cpus.isdisjoint(assignment.cpus))
    if unit > 1:
        free = union(core.cpus for core in topology.cores if core.cpus <= free)
    return free


def is_bound(world: World, assignment: Assignment) -> bool:
    """Whether a NUMA rule keeps a grant on the nodes that it has."""
    return Terms(world.settings, assignment.demand).numa in (NumaRule.RESTRICTED, NumaRule.SINGLE)


def _in_turn(world: World, free: CPUSet, assignment: Assignment) -> Iterator[CPUSet]:
    """What is eligible, in the order in which it should be taken, in disjoint sets."""
    topology = world.topology
    back = assignment.leaving.cpus & free if assignment.leaving else EMPTY
    yield back
    isolated = world.state.isolated
    alike = isolated if assignment.original <= isolated else topology.online - isolated
    for part in ((free - back) & alike, free - back - alike):
        yield from around(topology, part, assignment.cpus)
