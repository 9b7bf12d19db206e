"""Exchanging CPUs for better ones, where containers allow it (`cpuset.move`) and the gain is worth the cost.

A move has a cost: caches are cold, and pinned threads must be pinned again. So a move is made only if it makes the
machine strictly better, by the first of these that differs: fewer containers that span NUMA nodes, fewer that span
caches, fewer cores that a container has in part. Of several equal moves, the one that moves the fewest CPUs is made. A
round makes at most `max_moves`. Each makes the score smaller, so the moves come to an end. None gives up isolated CPUs
for others.

The container gains its new CPUs at once, and leaves the old ones as in any take. Its original set moves too, because
the label allows that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sidecar.decide.books.gains_and_losses import eligible, is_bound
from sidecar.decide.books.grants import options_of, place
from sidecar.decide.books.room import room_in
from sidecar.decide.books.takes import exchanged
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.world import World
from state.cause import Cause, ForOthers, Level, Together
from state.cpuset import CPUSet
from state.model import Assignment, State
from state.topology import Group, Topology


class Score(NamedTuple):
    """How scattered a machine's grants are. Smaller is better; the first field that differs decides."""

    across_nodes: int
    across_caches: int
    split_cores: int


def defragmented(world: World, state: State) -> State:
    """Return the State after the moves of one round."""
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
    """Return the grant whose move improves the score most, and its new CPUs; None if no move improves it.

    A move changes the part of one grant in the score, so only these parts are compared.
    """
    found: list[tuple[Score, int, int, CPUSet]] = []
    topology, width = world.topology, _width(world.topology)
    for each in state.assignments.values():
        container = world.containers.get(each.container)
        if not each.demand.move or each.leaving or container is None or world.is_absent(each.container):
            continue
        now = score_of(topology, each.cpus)
        if now <= Score(0, 0, int(len(each.cpus) % width > 0)):
            # No CPUs of this number are better.
            continue
        for chosen in _candidates(world, state, each):
            if len(chosen & world.state.isolated) < len(each.cpus & world.state.isolated):
                continue
            after = score_of(topology, chosen)
            if after < now:
                found.append((_change(now, after), len(chosen - each.cpus), each.since, chosen))
    if not found:
        return None
    _, _, since, cpus = min(found, key=lambda each: each[:3])
    return next(each for each in state.assignments.values() if each.since == since), cpus


def _candidates(world: World, state: State, assignment: Assignment) -> Iterator[CPUSet]:
    """Yield CPUs that a grant could have instead: a new placement; without options of its own or the node's, and
    without a binding NUMA rule, also its CPUs in one cache or node with the rest beside them.
    """
    without, topology, count = state.released(assignment.container), world.topology, len(assignment.cpus)
    fresh = place(world, without, assignment.demand, count)
    if isinstance(fresh, CPUSet):
        yield fresh
    if options_of(world, assignment.demand) or is_bound(world, assignment):
        return
    free, room = eligible(world, without, assignment), room_in(world, without)
    for group in (*topology.caches, *topology.nodes):
        kept = assignment.cpus & group.cpus
        if kept and kept != assignment.cpus:
            chosen = kept | beside(topology, around(topology, free - kept, kept), count - len(kept), ())
            if len(chosen) == count and room.objection(chosen) is None:
                yield chosen


def score_of(topology: Topology, cpus: CPUSet) -> Score:
    """Return the part that a grant of these CPUs has in the score of a machine."""
    cores = {core.id: core.cpus for core in map(topology.core_of.__getitem__, cpus & topology.online)}
    return Score(
        across_nodes=int(_is_across(topology.nodes, cpus)),
        across_caches=int(_is_across(topology.caches, cpus)),
        split_cores=sum(1 for core in cores.values() if not core <= cpus),
    )


def _is_across(groups: Sequence[Group], cpus: CPUSet) -> bool:
    return sum(1 for group in groups if group.cpus.mask & cpus.mask) > 1


def _change(before: Score, after: Score) -> Score:
    return Score(*(now - was for was, now in zip(before, after, strict=True)))


def _width(topology: Topology) -> int:
    """Return the threads of a core; 1 if the cores of this machine differ."""
    widths = {len(core.cpus) for core in topology.cores}
    return widths.pop() if len(widths) == 1 else 1


def _cause(topology: Topology, before: CPUSet, after: CPUSet) -> Cause:
    """Return what improved: the first level at which the grant lies on fewer groups; else, that others gain by it."""
    levels = ((Level.NODE, topology.nodes), (Level.CACHE, topology.caches), (Level.CORE, topology.cores))
    for level, groups in levels:
        was, now = (sum(1 for group in groups if not group.cpus.isdisjoint(cpus)) for cpus in (before, after))
        if now < was:
            return Together(level=level, now=now, before=was)
    return ForOthers()
