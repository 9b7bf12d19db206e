"""CPUs for a grant that lost some: beside those that it keeps, and by the same rules as a new grant.

Sources are tried in turn, each together with all before it. From each, a grant keeps all that it can, and the nearest
CPUs come first. If they do not complete what it keeps by its NUMA rule and in whole cores, it keeps less: only the
cores that can be made whole, then only one node's part. At last it is placed as a new grant, by `choose`. So no rule of
a grant takes CPUs from another one as long as free CPUs serve it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from sidecar.decide.books.gains_and_losses import eligible
from sidecar.decide.books.grants import ask_of, is_in_whole_units
from sidecar.decide.books.room import room_in
from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.choose import choose
from sidecar.decide.placement.numa.affinity import affinity
from sidecar.decide.placement.options import EFFICIENT, PERFORMANCE
from sidecar.decide.placement.tiers import alternatives, around, beside
from sidecar.decide.placement.whole_cores import is_by_cores, takeable, unit_of
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet, union
from state.demand import Demand, NumaRule
from state.model import Assignment, State
from state.topology import Topology


def replaced(
    world: World, state: State, demand: Demand, kept: CPUSet, sources: Iterable[CPUSet], count: int
) -> CPUSet | None:
    """Return `count` CPUs for a grant that keeps `kept`, from it and the sources alone; None if its rules allow none.

    `sources` are disjoint sets of other CPUs, the best first. The State, whose room limits what may be taken, has
    neither this grant nor any that gives way to it. None of them is asked for before those in front of it are tried.
    """
    accept = room_in(world, state).objection
    tried, free = list[CPUSet](), EMPTY
    for source in sources:
        tried.append(source)
        free |= source
        if len(kept | free) < count:
            continue
        for part in _parts(world, demand, kept, free, count):
            found = _completed(world, demand, part, tried, count)
            if found and accept(found) is None:
                return found
        fresh = choose(world.topology, kept | free, ask_of(world, demand, count), accept=accept)
        if isinstance(fresh, CPUSet):
            return fresh
    return None


def in_whole_cores(world: World, state: State, assignment: Assignment, count: int) -> CPUSet | None:
    """Return `count` CPUs in whole cores for a grant that has cores in part, since CPUs went offline: it gives up only
    such parts, for cores that are free. None if it has no such part, or too few are free. A grant that only other
    options can have made gives up nothing of its original set.
    """
    demand, held = assignment.demand, assignment.cpus
    whole = takeable(world.topology, Terms(world.settings, demand).options, held)
    if whole == held:
        return None
    free = eligible(world, state, assignment)
    found = replaced(world, state.released(assignment.container), demand, held, [free], count)
    kept = whole if is_made_by_its_rules(world, demand, held) else whole | assignment.original
    return found if found and kept <= found else None


def is_by_its_rules(world: World, demand: Demand, cpus: CPUSet) -> bool:
    """Return whether these CPUs are whole cores and on as few nodes as the rules of a demand require."""
    if takeable(world.topology, Terms(world.settings, demand).options, cpus) != cpus:
        return False
    most = _most_nodes(world, demand, len(cpus))
    return most is None or len(_homes(world.topology, cpus)) <= most


def is_made_by_its_rules(world: World, demand: Demand, cpus: CPUSet) -> bool:
    """Return whether a grant of these CPUs can have been made under the options in force, while CPUs were offline: its
    number comes to whole cores, and under `single` it is on one node whatever is offline.
    """
    terms = Terms(world.settings, demand)
    is_single = terms.numa is not NumaRule.SINGLE or len(_homes(world.topology, cpus)) <= 1
    return is_single and is_in_whole_units(world, demand)


def _parts(world: World, demand: Demand, kept: CPUSet, free: CPUSet, count: int) -> Iterator[CPUSet]:
    """Yield what a grant may keep, the most first; at most `count` CPUs each."""
    topology, usable, options = world.topology, kept, Terms(world.settings, demand).options
    if is_by_cores(options):
        usable = EMPTY
        whole = takeable(topology, options, kept | free)
        cores = [core.cpus for core in topology.cores if core.cpus <= whole and core.cpus & kept]
        for core in sorted(cores, key=lambda cpus: -len(cpus & kept)):
            if len(usable | core) <= count:
                usable |= core
        usable &= kept
    found = [usable] if len(usable) <= count else []
    if _most_nodes(world, demand, count) is not None:
        found += sorted((node & usable for node in _homes(topology, usable)), key=len, reverse=True)
    yield from dict.fromkeys(each for each in found if each)


def _completed(world: World, demand: Demand, kept: CPUSet, sources: Sequence[CPUSet], count: int) -> CPUSet | None:
    """Return `count` CPUs that contain `kept`, the rest from these sources; None if its rules allow none."""
    topology, options = world.topology, Terms(world.settings, demand).options
    allowed = _allowed(world, demand, kept, union(sources), count)
    tiers = [source & allowed for source in sources]
    unit = unit_of(topology, options, allowed)
    if is_by_cores(options):
        # 1. What it keeps of a core is made whole; the rest are whole cores, those of the best sources first.
        missing = topology.whole_cores(kept) - kept
        if not missing <= union(tiers):
            return None
        kept |= missing
        reached = [takeable(topology, options, each - kept) for each in accumulate(tiers, CPUSet.__or__)]
        tiers = [now - before for before, now in zip([EMPTY, *reached], reached, strict=False)]
    if len(kept) > count:
        return None
    nearest = (part for tier in tiers for part in around(topology, tier, kept))
    chosen = kept | beside(topology, nearest, count - len(kept), options, unit=unit)
    return chosen if len(chosen) == count and is_by_its_rules(world, demand, chosen) else None


def _allowed(world: World, demand: Demand, kept: CPUSet, free: CPUSet, count: int) -> CPUSet:
    """Return the CPUs on which a demand may lie beside what it keeps: of its kinds of cores, and on its nodes."""
    topology, settings = world.topology, world.settings
    required = [word for word in Terms(settings, demand).options if word in (PERFORMANCE, EFFICIENT)]
    allowed = alternatives(topology, topology.online, required, settings.isolated)[-1]
    if not required and topology.kinds:
        # As when it grows: it stays on the kinds of cores that it has.
        allowed &= union(kind.cpus for kind in topology.kinds if not kind.cpus.isdisjoint(kept))
    most = _most_nodes(world, demand, count)
    if most is None:
        return allowed
    homes = _homes(topology, kept)
    others = [node.cpus for node in topology.nodes if node.cpus not in homes]
    others.sort(key=lambda node: len(node & free & allowed), reverse=True)
    return allowed & union([*homes, *others[: max(0, most - len(homes))]])


def _most_nodes(world: World, demand: Demand, count: int) -> int | None:
    """Return on how many nodes so many CPUs may lie; None if its rule does not limit them."""
    rule = Terms(world.settings, demand).numa
    if rule is NumaRule.SINGLE:
        return 1
    if rule is not NumaRule.RESTRICTED:
        return None
    fewest = affinity(world.topology, world.topology.online, count, rule).nodes
    return len(fewest) if fewest else None


def _homes(topology: Topology, cpus: CPUSet) -> list[CPUSet]:
    return [node.cpus for node in topology.nodes if not node.cpus.isdisjoint(cpus)]
