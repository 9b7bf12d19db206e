"""What each placement algorithm claims, as checks of one call: assertions for every free set and count.

A claim checks only the calls that it is made for. `test_optimality` tries all of them on small machines, and sees each
of them fail on an algorithm that does not claim it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from state.cpuset import CPUSet
from state.topology import Topology
from tests.support.decide.placements import are_alike, touched, whole

Claim = Callable[[Topology, CPUSet, int, CPUSet], bool]
"""Machine, free CPUs, count, CPUs taken; whether the claim is about this call. AssertionError if it does not hold."""


def whole_cores_first(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check that it takes as many whole free cores as fit the request, and breaks at most one other core."""
    if not are_alike(machine.cores):
        return False
    free_cores, size = whole(machine.cores, free), len(machine.cores[0].cpus)
    entire = [core for core in free_cores if core.cpus <= taken]
    assert len(entire) == min(count // size, len(free_cores))
    assert len([core for core in free_cores if not core.cpus.isdisjoint(taken)]) <= len(entire) + 1
    return True


def half_used_cores_before_breaking_one(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check, on one node, that no free core is broken if the CPUs of half-used cores make up the rest."""
    if not are_alike(machine.cores) or len(machine.nodes) > 1:
        return False
    size, free_cores = len(machine.cores[0].cpus), whole(machine.cores, free)
    single = len(free) - size * len(free_cores)
    broken = [core for core in free_cores if 0 < len(core.cpus & taken) < size]
    rest = count - size * min(count // size, len(free_cores))
    assert len(broken) == (0 if rest <= single else 1)
    return True


def whole_nodes_first(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check that it takes as many whole free nodes as fit the request."""
    if not are_alike(machine.nodes):
        return False
    entire = [node for node in whole(machine.nodes, free) if node.cpus <= taken]
    assert len(entire) >= min(count // len(machine.nodes[0].cpus), len(whole(machine.nodes, free)))
    return True


def fullest_nodes_first(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check, without SMT and with one node per package: all touched nodes but one are used up, and no fuller node is
    spared.

    So packed does not take the fewest nodes: it uses up a nearly full node even if that node cannot serve alone.
    """
    if len(machine.cores) != len(machine.online) or len(machine.packages) != len(machine.nodes):
        return False
    partly = [node for node in machine.nodes if not node.cpus <= free and node.cpus & free]
    used = [node for node in partly if node.cpus & taken]
    assert len([node for node in touched(machine.nodes, taken) if node.cpus & (free - taken)]) <= 1
    for spared in partly:
        if spared not in used:
            assert all(len(spared.cpus & free) >= len(node.cpus & free) for node in used)
    return True


def as_many_cores_as_there_can_be(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check, for less than a node: package by package, a CPU of every core before a second one of any core."""
    if count >= min(len(node.cpus) for node in machine.nodes):
        return False
    for package in machine.packages:
        own = taken & package.cpus
        assert len(touched(machine.cores, own)) == min(len(own), len(touched(machine.cores, free & package.cpus)))
    assert len([p for p in touched(machine.packages, taken) if p.cpus & (free - taken)]) <= 1
    return True


def a_free_cache_for_its_size(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check that a request of a cache's size is one cache, if one is free."""
    size = len(machine.caches[0].cpus)
    if not are_alike(machine.caches) or count != size or not whole(machine.caches, free):
        return False
    assert len(whole(machine.caches, taken)) == 1
    return True


def one_cache_without_smt(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check, without SMT: a request that fits into one cache is in one cache, unless it is a whole node."""
    fits = any(len(cache.cpus & free) >= count for cache in machine.caches)
    nodes_above = all(len(node.cpus) > count for node in machine.nodes)
    if len(machine.cores) != len(machine.online) or not fits or not nodes_above:
        return False
    assert len(touched(machine.caches, taken)) == 1
    return True


def the_fewest_members(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check that no smaller number of nodes has the common share in each and enough together."""
    members = len(touched(machine.nodes, taken))
    # The kubelet begins with the number that an idle machine of equal nodes would need.
    per_node = -(-len(machine.online) // len(machine.nodes))
    for fewer in range(-(-count // per_node), members):
        for chosen in combinations(machine.nodes, fewer):
            own = [len(node.cpus & free) for node in chosen]
            assert min(own) < count // fewer or sum(own) < count
    return True


def the_most_even(machine: Topology, free: CPUSet, count: int, taken: CPUSet) -> bool:
    """Check that no other way for that many members to give the same number of CPUs, or one more than others, leaves
    the nodes more even.
    """
    before = [len(node.cpus & free) for node in machine.nodes]
    given = [len(node.cpus & taken) for node in machine.nodes]
    members = sum(1 for each in given if each)
    share, rest = divmod(count, members)
    if min(each for each in given if each) < share:
        # No number of members works: it is placed packed.
        return False
    left = sum((b - g) ** 2 for b, g in zip(before, given, strict=True))
    for chosen in combinations(range(len(before)), members):
        for more in combinations(chosen, rest):
            amounts = [(place in chosen) * share + (place in more) for place in range(len(before))]
            if all(a <= b for a, b in zip(amounts, before, strict=True)):
                assert left <= sum((b - a) ** 2 for a, b in zip(amounts, before, strict=True))
    return True


CLAIMS: dict[str, tuple[Claim, ...]] = {
    "packed": (whole_cores_first, half_used_cores_before_breaking_one, whole_nodes_first, fullest_nodes_first),
    "spread": (as_many_cores_as_there_can_be, whole_nodes_first),
    "along caches": (
        whole_cores_first,
        whole_nodes_first,
        a_free_cache_for_its_size,
        one_cache_without_smt,
    ),
    "distributed": (the_fewest_members, the_most_even),
}
