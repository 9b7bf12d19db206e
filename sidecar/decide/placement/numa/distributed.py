"""Distributed placement (distribute-cpus-across-numa): evenly over as few NUMA nodes as possible, like the kubelet.

CPUs are dealt in groups: whole cores under full-pcpus-only, else single CPUs.

1. Nothing to do, or not enough. A count that is not a multiple of the group is placed packed.
2. List the nodes with free CPUs, in the order of `packed`, and the fewest that the count needs on an idle machine.
3. From there upwards, find the first number of members that works. All members give the same number of whole groups;
   the rest is dealt round-robin to some of them. A number works if so many nodes have the common share free, and
   together have enough whole groups.
4. Of all members and dealings with this number, choose the one that leaves the nodes most even: `even_balance`.
5. Take each member's CPUs packed within the node: first the common share, then the dealt groups one by one.
6. If no number works, place the count packed over all nodes.

If no whole group was left, the kubelet up to 1.36 tried whole CPUs and never returned; here only whole groups count
(fixed there later). It also overwrote its best result with later ones (fixed there later too).
"""

from __future__ import annotations

from itertools import accumulate

from sidecar.decide.placement.numa.even_balance import Deal, balanced
from sidecar.decide.placement.order.packed import pack, packed
from sidecar.decide.placement.order.taking import Taking
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


def distributed(topology: Topology, available: CPUSet, count: int, group_size: int) -> CPUSet | None:
    """Return `count` CPUs out of `available`; None if there are fewer. Deterministic. `group_size` is in CPUs."""
    # 1. Nothing to do, or not enough.
    if count < 1:
        return EMPTY
    taking = Taking(topology.tree, available.mask, count)
    if taking.free.bit_count() < count:
        return None
    if count % group_size:
        return packed(topology, available, count)
    # 2. The nodes.
    nodes = taking.nodes()
    free = [(node & taking.free).bit_count() for node in nodes]
    total_groups = -(-len(topology.online) // group_size)
    fewest = -(-(count // group_size) // -(-total_groups // len(topology.nodes)))
    # 3. The first number of members that works.
    members = _members(free, count, group_size, fewest)
    if not members:
        # 6. No number works.
        return packed(topology, available, count)
    # 4. The most even. 5. Taken node by node.
    taken = 0
    for deal in balanced(free, count, group_size, members):
        taken |= _from_node(topology, nodes[deal.place], taking.free, deal, group_size)
    return CPUSet.from_mask(taken)


def _members(free: list[int], count: int, group_size: int, fewest: int) -> int:
    """Return the smallest number of members that works, at least `fewest`; 0 if none does."""
    groups = sorted((cpus // group_size for cpus in free), reverse=True)
    together = list(accumulate(groups))
    needed = count // group_size
    for members in range(fewest, min(needed, len(free)) + 1):
        # Check the nodes with the most groups: if they are not enough, no others are.
        if groups[members - 1] >= needed // members and together[members - 1] >= needed:
            return members
    return 0


def _from_node(topology: Topology, node: int, free: int, deal: Deal, group_size: int) -> int:
    taking = Taking(topology.tree.parts[node], node & free, deal.share)
    pack(taking)
    for _ in range(deal.extra):
        taking.needed = group_size
        pack(taking)
    return taking.taken
