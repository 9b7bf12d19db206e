"""Distributed placement (distribute-cpus-across-numa): evenly over as few NUMA nodes as will do, like the kubelet.

CPUs are dealt in groups: whole cores under full-pcpus-only, else single CPUs.

1. Nothing to do, or not enough. A count that is not a multiple of the group is placed packed.
2. The nodes with free CPUs, in the order of `packed`, and the fewest that the count needs on an idle machine.
3. From there upwards: the first number of members that works. Members give the same number of whole groups; what is
   left over is dealt round-robin to some of them. A number works if so many nodes have as much as all members give,
   and together have enough whole groups.
4. Of all members and dealings with this number, the one that leaves the nodes most even: `even_balance`.
5. Each member's CPUs are taken packed within the node: first what all give, then group by group what is dealt.
6. Where no number works, the count is placed packed over everything.

The kubelet up to 1.36 tried whole CPUs where no whole group was left, and never came back; here only whole groups count
(fixed there later). It also overwrote its best find with later ones (fixed there later too).
"""

from __future__ import annotations

from itertools import accumulate

from sidecar.decide.placement.numa.even_balance import Deal, balanced
from sidecar.decide.placement.order.packed import pack, packed
from sidecar.decide.placement.order.taking import Taking
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


def distributed(topology: Topology, available: CPUSet, count: int, group_size: int) -> CPUSet | None:
    """`count` CPUs out of `available`, or None where there are not so many. Deterministic. `group_size` is in CPUs."""
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
        # 6. None does.
        return packed(topology, available, count)
    # 4. The most even. 5. Taken node by node.
    taken = 0
    for deal in balanced(free, count, group_size, members):
        taken |= _from_node(topology, nodes[deal.place], taking.free, deal, group_size)
    return CPUSet.from_mask(taken)


def _members(free: list[int], count: int, group_size: int, fewest: int) -> int:
    """The smallest number of members that works, `fewest` or more; 0 if none does."""
    groups = sorted((cpus // group_size for cpus in free), reverse=True)
    together = list(accumulate(groups))
    needed = count // group_size
    for members in range(fewest, min(needed, len(free)) + 1):
        # The nodes with the most groups are the ones to ask: if they cannot do it, no others can.
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
