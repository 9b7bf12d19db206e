"""Preferences of a request: alternatives that are tried one after the other, and nearness to a device.

Kinds of cores and isolated CPUs are *alternatives*: if possible, all CPUs of a request are of one kind, and either all
isolated or none. So the first alternative that can serve the whole request is used, and mixed ones come last:

    isolated performance cores, isolated efficient cores, isolated CPUs; then the same of the other CPUs; then of all

Nearness is *gradual*: the CPUs local to the device come first, then those of more and more distant nodes. The same
holds for isolated CPUs if they must be mixed with others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sidecar.decide.placement.options import ACROSS_CORES, ACROSS_NUMA
from sidecar.decide.placement.order.by_options import take
from sidecar.decide.placement.whole_cores import of_asked_kinds
from sidecar.decide.settings import IsolatedRule
from state.cpuset import EMPTY, CPUSet, union
from state.topology import Topology


def alternatives(
    topology: Topology, available: CPUSet, options: Collection[str], isolated: IsolatedRule
) -> tuple[CPUSet, ...]:
    """Return the sets to try in turn. The last one contains all CPUs that may be used."""
    allowed = available
    # Requirements, as opposed to preferences.
    if isolated is IsolatedRule.ONLY:
        allowed &= topology.isolated
    allowed &= of_asked_kinds(topology, options)
    tried: list[CPUSet] = []
    for part in _parts(allowed, topology.isolated, isolated):
        tried += [part & kind.cpus for kind in topology.kinds]
        tried.append(part)
    return (*dict.fromkeys(each for each in tried[:-1] if each and each != allowed), allowed)


def tiers(topology: Topology, cpus: CPUSet, near: str, isolated: IsolatedRule) -> Iterator[CPUSet]:
    """Yield these CPUs as disjoint sets, in the order in which they should be taken."""
    for part in (cpus & topology.isolated, cpus - topology.isolated) if isolated is IsolatedRule.PREFER else (cpus,):
        yield from by_distance(topology, part, near)


def by_distance(topology: Topology, cpus: CPUSet, near: str) -> Iterator[CPUSet]:
    """Yield these CPUs as disjoint sets, from nearest to farthest; all at once if the device is unknown."""
    local = topology.devices.get(near, EMPTY)
    homes = [node.id for node in topology.nodes if not node.cpus.isdisjoint(local)]
    left = cpus
    if local:
        yield left & local
        left -= local
    if homes and topology.distances:
        rings: dict[int, list[CPUSet]] = {}
        for node in topology.nodes:
            known = [topology.distances.get(home, {}).get(node.id) for home in homes]
            distance = min((each for each in known if each is not None), default=None)
            if distance is not None:
                rings.setdefault(distance, []).append(node.cpus)
        for _, nodes in sorted(rings.items()):
            yield left & union(nodes)
            left -= union(nodes)
    yield left


def around(topology: Topology, available: CPUSet, held: CPUSet) -> Iterator[CPUSet]:
    """Yield the available CPUs as disjoint sets, from nearest to farthest from `held`: the same core, cache, die, node
    and package, then the rest. Stop early if none is left.
    """
    left = available
    for level in (topology.cores, topology.caches, topology.dies, topology.nodes, topology.packages):
        if not left:
            return
        near = left & union(group.cpus for group in level if group.cpus.mask & held.mask)
        yield near
        left -= near
    yield left


def _parts(allowed: CPUSet, isolated: CPUSet, rule: IsolatedRule) -> tuple[CPUSet, ...]:
    if rule is IsolatedRule.PREFER:
        return allowed & isolated, allowed - isolated, allowed
    return (allowed,)


def beside(
    topology: Topology, tiers: Iterable[CPUSet], count: int, options: Collection[str], *, unit: int = 1
) -> CPUSet:
    """Return up to `count` CPUs out of disjoint tiers, the first tiers first, in whole units; fewer if need be. From a
    tier they are on the fewest nodes, unless the options spread them.
    """
    chosen = EMPTY
    for tier in tiers:
        for part in _by_nodes(topology, tier, count - len(chosen), options):
            amount = min(count - len(chosen), len(part := part - chosen))
            amount -= amount % unit
            if amount:
                chosen |= take(topology, part, amount, options) or EMPTY
    return chosen


def _by_nodes(topology: Topology, tier: CPUSet, count: int, options: Collection[str]) -> Iterator[CPUSet]:
    """Yield the parts of a tier from which so many CPUs should be taken in turn, the last one all of it: the largest
    nodes until one has enough for the rest, then the smallest that has.
    """
    if count < len(tier) and ACROSS_NUMA not in options and ACROSS_CORES not in options:
        inside = (tier & node.cpus for node in topology.nodes)
        left = sorted((cpus for cpus in inside if cpus), key=len)
        while count > 0 and len(left) > 1:
            enough = next((cpus for cpus in left if len(cpus) >= count), left[-1])
            yield enough
            left.remove(enough)
            count -= len(enough)
    yield tier
