"""Offline CPUs that stand in the way of a request: with them, the machine might serve what it cannot serve now.

How CPUs lie is not told while they are offline: not their nodes, and of their cores only what was seen before. So each
counts as if it lay where the request needs it. What cannot be served even so, no CPU that comes back makes possible.
"""

from __future__ import annotations

from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.whole_cores import is_by_cores, of_asked_kinds, takeable
from sidecar.decide.settings import IsolatedRule
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand, NumaRule
from state.model import State
from state.refusal import NoMultiple, Refusal


def offline_in_the_way(world: World, state: State, demand: Demand, count: int, refusal: Refusal) -> CPUSet:
    """Return the offline CPUs with which `count` CPUs might be granted that this machine refuses now, even without any
    container; none if all of them together would not be enough, or if the number itself is the reason.
    """
    offline = world.topology.offline
    if not offline or isinstance(refusal.detail, NoMultiple):
        return EMPTY
    return offline if count <= _most(world, state, demand) else EMPTY


def _most(world: World, state: State, demand: Demand) -> int:
    """Return a number of CPUs that no grant of this demand exceeds, whatever comes online."""
    topology, settings, terms = world.topology, world.settings, Terms(world.settings, demand)
    # 1. What is reserved when all is online: those that stand in for others now are not.
    present = topology.online | topology.offline
    listed = (settings.reserved_cpus or state.counted or EMPTY) & present
    wanted = max(1, len(listed)) if settings.reserved_cpus else min(settings.reserved_count, len(present))
    # 2. What the request may use of the rest: of its kinds of cores, and isolated if it must be.
    candidates = of_asked_kinds(topology, terms.options) - listed
    if settings.isolated is IsolatedRule.ONLY:
        candidates &= topology.isolated
    came = topology.offline - listed
    # 3. Under full-pcpus-only, what comes back makes cores whole.
    usable = _in_cores(world, terms.options, candidates, came)
    if terms.numa is NumaRule.SINGLE:
        # 4. On one node.
        nodes = [candidates & node.cpus for node in topology.nodes]
        usable = max(_in_cores(world, terms.options, each, came) for each in nodes)
    # 5. What the pool keeps, of all that is in it.
    outside = state.isolated - listed
    pool = len(present - outside) - (wanted if state.strict else 0)
    left = len(outside) + max(0, pool - max(1, settings.shared_min))
    return min(usable, len(present) - wanted, left)


def _in_cores(world: World, options: tuple[str, ...], candidates: CPUSet, came: CPUSet) -> int:
    """Return how many of these CPUs, and of those that came online, may be granted: each of the latter makes one core
    whole, and no core is wider than the widest, of which threads may be offline.
    """
    everything = len(candidates) + len(came)
    if not is_by_cores(options):
        return everything
    whole = takeable(world.topology, options, candidates)
    return min(everything, len(whole) + len(came) * world.topology.widest)
