"""Which CPUs a grant gains and loses when its size changes: it grows nearby, and shrinks in reverse order.

A shrink gives up the newest layers first, and in each the CPUs farthest from the original set, whole cores together. So
cores and caches come back whole, and the original set is never touched. Under full-pcpus-only, cores are gained and
lost as a whole.

A growth first takes back CPUs that are still leaving the grant, which cancels the take, then the nearest by core,
cache, die, node and socket. It prefers CPUs that are isolated as the original set is, and takes the others before any
stays idle. It stays within the kinds of cores that the grant has, and within its NUMA nodes if its rule binds it to
them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.grants import options_of
from sidecar.decide.books.room import room_in
from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.placement.whole_cores import is_by_cores, takeable, unit_of
from sidecar.decide.settings import IsolatedRule
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet, union
from state.demand import NumaRule
from state.model import Assignment, State
from state.topology import Topology


def given_up(
    topology: Topology, assignment: Assignment, count: int, *, is_whole: bool = False, but: CPUSet = EMPTY
) -> CPUSet:
    """Return `count` CPUs for a grant to give up, other than `but`; if it has fewer that it may give up, all of those.
    It never gives up CPUs of its original set, nor, if cores stay whole, of a core of that set, or part of a core.
    """
    original = assignment.original
    kept = topology.whole_cores(original | but) if is_whole else original | but
    lost = EMPTY
    for layer in reversed(assignment.layers):
        for tier in reversed(tuple(around(topology, layer - kept, original))):
            if amount := min(count - len(lost), len(tier)):
                lost |= _last_of(topology, tier, amount, is_whole=is_whole)
        if len(lost) == count:
            break
    return lost


def cut_off(world: World, assignment: Assignment, lost: CPUSet) -> CPUSet:
    """Return all CPUs that a grant loses with these: under full-pcpus-only, the others on their cores as well, without
    its original set.
    """
    if not is_by_cores(options_of(world, assignment.demand)):
        return lost
    return lost | ((assignment.cpus & world.topology.whole_cores(lost)) - assignment.original)


def _last_of(topology: Topology, cpus: CPUSet, count: int, *, is_whole: bool) -> CPUSet:
    """Return `count` of these CPUs: first whole parts of cores, the largest and then the highest; then single CPUs,
    unless cores stay whole.
    """
    cores = list(dict.fromkeys(topology.core_of[cpu].cpus & cpus for cpu in reversed(list(cpus))))
    chosen = EMPTY
    for part in sorted(cores, key=len, reverse=True):
        if len(part) <= count - len(chosen):
            chosen |= part
    if is_whole:
        return chosen
    rest = [cpu for part in sorted(cores, key=len) for cpu in part - chosen]
    return chosen | CPUSet(rest[: count - len(chosen)])


def gained(world: World, state: State, assignment: Assignment, count: int) -> CPUSet:
    """Return up to `count` CPUs that a grant can gain; fewer, or none, if there are fewer."""
    options = options_of(world, assignment.demand)
    unit = unit_of(world.topology, options, assignment.cpus)
    free = eligible(world, state, assignment)
    # Cores that it has in part, since a CPU was offline, become whole first.
    halves = free & world.topology.whole_cores(assignment.cpus) if is_by_cores(options) else EMPTY
    completing = packed(world.topology, halves, min(len(halves), count)) or EMPTY
    nearest = beside(
        world.topology, _in_turn(world, free - halves, assignment), count - len(completing), options, unit=unit
    )
    room = room_in(world, state)
    if room.objection(completing | nearest) is None:
        return completing | nearest
    # The pool keeps some. The grant gains as many of the nearest as may be spared, then others that cost the pool less.
    while completing and room.objection(completing) is not None:
        completing = packed(world.topology, completing, len(completing) - 1) or EMPTY
    chosen = completing
    for part in (nearest, free - halves):
        left = replace(room, shared=room.shared - chosen, givable=part - chosen)
        spare = _in_turn(world, left.spare(by_cores=is_by_cores(options)), assignment)
        chosen |= beside(world.topology, spare, count - len(chosen), options, unit=unit)
    return chosen


def eligible(world: World, state: State, assignment: Assignment) -> CPUSet:
    """Return the free CPUs that a grant could gain: of its kinds of cores, on the nodes that its NUMA rule binds it to,
    and if its options require it, only what makes whole cores.
    """
    topology = world.topology
    free = state.assignable - world.strangers
    if world.settings.isolated is IsolatedRule.ONLY:
        free &= topology.isolated
    if topology.kinds:
        free &= union(kind.cpus for kind in topology.kinds if not kind.cpus.isdisjoint(assignment.cpus))
    if is_bound(world, assignment):
        free &= union(node.cpus for node in topology.nodes if not node.cpus.isdisjoint(assignment.cpus))
    return takeable(topology, options_of(world, assignment.demand), free | assignment.cpus) & free


def is_bound(world: World, assignment: Assignment) -> bool:
    """Return whether a NUMA rule keeps a grant on the nodes that it has."""
    return Terms(world.settings, assignment.demand).numa in (NumaRule.RESTRICTED, NumaRule.SINGLE)


def _in_turn(world: World, free: CPUSet, assignment: Assignment) -> Iterator[CPUSet]:
    """Yield the eligible CPUs as disjoint sets, in the order in which a growth takes them."""
    topology = world.topology
    back = assignment.leaving.cpus & free if assignment.leaving else EMPTY
    if is_by_cores(options_of(world, assignment.demand)):
        back = topology.whole_cores(back) & free
    yield back
    isolated = world.state.isolated
    alike = (free - back) & (isolated if assignment.original <= isolated else topology.online - isolated)
    # A core that is isolated in part is not divided: it comes last.
    alike = takeable(topology, options_of(world, assignment.demand), alike | assignment.cpus) & alike
    for part in (alike, free - back - alike):
        yield from around(topology, part, assignment.cpus)
