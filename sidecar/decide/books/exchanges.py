"""Exchanging CPUs for better ones, where containers allow it (`cpuset.move`) and where it is worth its price.

A move costs: caches are cold, and threads that were pinned must be pinned anew. So one is made only if the machine is
strictly better for it, by the first of these that differs: fewer containers that span NUMA nodes, fewer that span
caches, fewer cores that a container has in part. Of several, the one that moves the fewest CPUs; and no more than
`max_moves` a round. Each makes the score smaller, so there is an end to it.

The container is widened by its new CPUs at once, and leaves the old ones as in any take. Its original set moves, too:
that is what it allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sidecar.decide.books.gains_and_losses import is_bound
from sidecar.decide.books.grants import options_of, place
from sidecar.decide.books.room import room_in
from sidecar.decide.books.takes import exchanged
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.world import World
from state.cause import Cause, ForOthers, Level, Together
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import Assignment, State
from state.topology import Topology


class Score(NamedTuple):
    """How scattered a machine's grants are; smaller is better, the first that differs decides."""

    across_nodes: int
    across_caches: int
    split_cores: int


def defragmented(world: World, state: State) -> State:
    """The books after the moves of one round."""
    for _ in range(world.settings.max_moves):
        found = best_move(world, state)
        if found is None:
            return state
        assignment, cpus = found
        original = packed(world.topology, cpus, assignment.demand.floor) or cpus
        cause = _cause(world.topology, assignment.cpus, cpus)
        state = exchanged(state, assignment.container, cpus, original, cause)
    return state


def best_move(world: World, state: State) -> tuple[Assignment, CPUSet] | None:
    """The move that makes the machine best, and where to; None where none makes it better."""
    now = score(world.topology, state)
    found: list[tuple[Score, int, int, CPUSet]] = []
    for each in state.assignments.values():
        container = world.containers.get(each.container)
        if not each.demand.move or each.leaving or container is None:
            continue
        for chosen in _candidates(world, state, each):
            after = score(world.topology, state, each.container, chosen)
            if after < now:
                found.append((after, len(chosen - each.cpus), each.since, chosen))
    if not found:
        return None
    _, _, since, cpus = min(found, key=lambda each: each[:3])
    return next(each for each in state.assignments.values() if each.since == since), cpus


def _candidates(world: World, state: State, assignment: Assignment) -> Iterator[CPUSet]:
    """Where a grant could be instead: placed anew; or, where it asks for nothing particular, what it has in one cache
    or node and the rest beside that.
    """
    without, topology, count = state.released(assignment.container), world.topology, len(assignment.cpus)
    anew = place(world, without, assignment.demand, count)
    if isinstance(anew, CPUSet):
        yield anew
    if options_of(world, assignment.demand) or is_bound(world, assignment):
        return
    free, room = without.assignable - world.strangers, room_in(world, without)
    for group in (*topology.caches, *topology.nodes):
        kept = assignment.cpus & group.cpus
        if kept and kept != assignment.cpus:
            chosen = kept | beside(topology, around(topology, free - kept, kept), count - len(kept), ())
            if len(chosen) == count and room.objection(chosen) is None:
                yield chosen


def score(
    topology: Topology, state: State, container: ContainerKey | None = None, instead: CPUSet | None = None
) -> Score:
    """The score of the books, with this container on other CPUs `instead`."""
    across_nodes = across_caches = split_cores = 0
    for key, each in state.assignments.items():
        cpus = instead if key == container and instead is not None else each.cpus
        across_nodes += sum(1 for node in topology.nodes if not node.cpus.isdisjoint(cpus)) > 1
        across_caches += sum(1 for cache in topology.caches if not cache.cpus.isdisjoint(cpus)) > 1
        split_cores += sum(1 for core in topology.cores if not core.cpus.isdisjoint(cpus) and not core.cpus <= cpus)
    return Score(across_nodes, across_caches, split_cores)


def _cause(topology: Topology, before: CPUSet, after: CPUSet) -> Cause:
    """What is better now: the first level at which it lies on fewer groups."""
    levels = ((Level.NODE, topology.nodes), (Level.CACHE, topology.caches), (Level.CORE, topology.cores))
    for level, groups in levels:
        was, now = (sum(1 for group in groups if not group.cpus.isdisjoint(cpus)) for cpus in (before, after))
        if now < was:
            return Together(level=level, now=now, before=was)
    return ForOthers()
