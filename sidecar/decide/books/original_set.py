"""The original set of a grant: as many CPUs as its floor, which stay with it.

Under full-pcpus-only a grant keeps what it has of the cores of that set. So the set lies on as few cores as the floor
comes to: on whole ones as far as the grant has these, and on none that it could do without. A core that lost a thread
is a core with one CPU until the other thread is back: a set on halves would become twice as large. So if the machine
changed, the set keeps its whole cores, and the nearest whole cores take the place of the others.
"""

from __future__ import annotations

from sidecar.decide.books.grants import is_in_whole_units, options_of
from sidecar.decide.placement.order.packed import packed
from sidecar.decide.placement.tiers import around, beside
from sidecar.decide.placement.whole_cores import is_by_cores, rounded_up, takeable, unit_of
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet, union
from state.model import Assignment, State
from state.topology import Topology


def layered(world: World, grant: Assignment, cpus: CPUSet) -> Assignment:
    """Return the grant on these CPUs: its original set as large as its floor, and the rest in its layers."""
    original = _original(world, grant, cpus)
    layers = tuple(part for layer in grant.layers if (part := (layer & cpus) - original))
    if rest := cpus - original - union(layers):
        layers = (rest, *layers)
    return replace(grant, cpus=cpus, original=original, layers=layers)


def with_original_sets_on_cores(world: World, state: State) -> State:
    """Return the State in which no original set lies on more cores than its grant's floor comes to."""
    for grant in state.assignments.values():
        if _counts_in_cores(world, grant) and not grant.original <= _cores_for(world, grant, grant.cpus):
            state = state.holding(layered(world, grant, grant.cpus))
    return state


def _original(world: World, grant: Assignment, cpus: CPUSet) -> CPUSet:
    """Return the original set of a grant on these CPUs, as large as its floor: its remains, and the nearest CPUs."""
    topology, size = world.topology, grant.demand.floor
    within = _cores_for(world, grant, cpus) if _counts_in_cores(world, grant) else cpus
    original = grant.original & within
    if len(original) >= size:
        return original if len(original) == size else packed(topology, original, size) or original
    return original | beside(topology, around(topology, within - original, original), size - len(original), ())


def _counts_in_cores(world: World, grant: Assignment) -> bool:
    """Return whether a grant requires whole cores, and not only since its number was granted, which comes to none."""
    return is_by_cores(options_of(world, grant.demand)) and is_in_whole_units(world, grant.demand)


def _cores_for(world: World, grant: Assignment, cpus: CPUSet) -> CPUSet:
    """Return what these CPUs have of the cores of the original set.

    1. Whole cores come first: those of the set before, the best packed of them, then the nearest; then cores in part.
    2. First those that do not exceed the floor in whole cores, and others only if it is not reached.
    3. It needs each of them.
    """
    topology, options = world.topology, options_of(world, grant.demand)
    least = rounded_up(grant.demand.floor, unit_of(topology, options, cpus), most=len(cpus))
    whole = takeable(topology, options, cpus)
    # 1. In turn.
    parts = [part for tier in (whole, cpus - whole) for part in _in_turn(topology, tier, grant.original & cpus)]
    # 2. As many as the floor comes to.
    chosen = list[CPUSet]()
    for is_exact in (True, False):
        for part in parts:
            lacking = least - sum(map(len, chosen))
            if lacking > 0 and part not in chosen and (len(part) <= lacking or not is_exact):
                chosen.append(part)
    # 3. None too many.
    for part in reversed(chosen):
        if sum(map(len, chosen)) - len(part) >= least:
            chosen.remove(part)
    return union(chosen)


def _in_turn(topology: Topology, cpus: CPUSet, original: CPUSet) -> list[CPUSet]:
    """Return these CPUs by cores: those of the original set, the most of it first, then the nearest to it."""
    cores = [core.cpus & cpus for core in topology.cores if not core.cpus.isdisjoint(cpus)]
    tiers = list(around(topology, cpus, original)) if original else [cpus]
    ranks = {cpu: rank for rank, tier in enumerate(tiers) for cpu in tier}
    return sorted(cores, key=lambda part: (-len(part & original), min(ranks[cpu] for cpu in part)))
