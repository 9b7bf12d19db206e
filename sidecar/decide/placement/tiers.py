"""Where a request would rather be: alternatives to be tried one after the other, and nearness to a device.

Kinds of cores and isolated CPUs are *alternatives*: a request should be of one kind, and either isolated or not, where
that is possible. So the first alternative that can serve the whole request does, and only the last one mixes:

    isolated and performance, isolated and efficient, isolated, then the same of the others, then all

Nearness is *gradual*: the CPUs local to the device first, then those of ever more distant nodes. So are isolated CPUs
where they must be mixed with others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sidecar.decide.placement.options import EFFICIENT, PERFORMANCE
from sidecar.decide.placement.order.by_options import take
from sidecar.decide.settings import IsolatedRule
from state.cpuset import EMPTY, CPUSet, union
from state.topology import Topology


def alternatives(
    topology: Topology, available: CPUSet, options: Collection[str], isolated: IsolatedRule
) -> tuple[CPUSet, ...]:
    """The sets to try in turn; the last one holds everything that may be used at all."""
    allowed = available
    # What is asked for rather than preferred.
    if isolated is IsolatedRule.ONLY:
        allowed &= topology.isolated
    allowed &= _asked_kinds(topology, options)
    tried: list[CPUSet] = []
    for part in _parts(allowed, topology.isolated, isolated):
        tried += [part & kind.cpus for kind in topology.kinds]
        tried.append(part)
    return (*dict.fromkeys(each for each in tried[:-1] if each and each != allowed), allowed)


def tiers(topology: Topology, cpus: CPUSet, near: str, isolated: IsolatedRule) -> Iterator[CPUSet]:
    """These CPUs in the order in which they should be taken, in disjoint sets."""
    for part in (cpus & topology.isolated, cpus - topology.isolated) if isolated is IsolatedRule.PREFER else (cpus,):
        yield from by_distance(topology, part, near)


def by_distance(topology: Topology, cpus: CPUSet, near: str) -> Iterator[CPUSet]:
    """These CPUs from nearest to farthest, in disjoint sets; all at once where nothing is known of the device."""
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
    """What is available from nearest to farthest from what is held, in disjoint sets: the same core, cache, die, node
    and package, then the rest. Ends early once nothing is left.
    """
    left = available
    for level in (topology.cores, topology.caches, topology.dies, topology.nodes, topology.packages):
        if not left:
            return
        near = left & union(group.cpus for group in level if group.cpus.mask & held.mask)
        yield near
        left -= near
    yield left


def _asked_kinds(topology: Topology, options: Collection[str]) -> CPUSet:
    """The CPUs of the kinds that are asked for by name: every CPU where the machine has but one kind."""
    if topology.kinds and EFFICIENT in options:
        return topology.kinds[-1].cpus
    if topology.kinds and PERFORMANCE in options:
        return union(kind.cpus for kind in topology.kinds[:-1])
    return topology.online


def _parts(allowed: CPUSet, isolated: CPUSet, rule: IsolatedRule) -> tuple[CPUSet, ...]:
    if rule is IsolatedRule.PREFER:
        return allowed & isolated, allowed - isolated, allowed
    return (allowed,)


def beside(
    topology: Topology, tiers: Iterable[CPUSet], count: int, options: Collection[str], *, unit: int = 1
) -> CPUSet:
    """Up to `count` CPUs out of disjoint tiers, the first ones first, in whole units: as many as there are."""
    chosen = EMPTY
    for tier in tiers:
        amount = min(count - len(chosen), len(tier))
        amount -= amount % unit
        if amount:
            chosen |= take(topology, tier, amount, options) or EMPTY
    return chosen
