"""Which containers lose CPUs by a decision alone, so that other containers may enter these at once. Pure.

Within a policy a container leaves CPUs by an order of its own, which withdraws them first, and other containers wait
for its footprint. A grant that ends, or of which CPUs become reserved, opens them in the same decision, without such
an order. So the allocator rewrites what is told of them before it sends any order of that decision.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.model import Assignment


def losers(before: World, world: World) -> Iterator[ContainerKey]:
    """Yield the containers that may run on CPUs which were theirs before this decision, and which it opens to other
    containers.
    """
    were, are = before.state.assignments, world.state.assignments
    is_same = before.settings.policy is world.settings.policy
    if were is are and is_same:
        return
    for key, grant in were.items():
        known = world.containers.get(key)
        if known is None or (is_same and are.get(key) is grant):
            continue
        if (_kept(before, grant) - _kept(world, are.get(key))).mask & known.footprint:
            yield key


def _kept(world: World, grant: Assignment | None) -> CPUSet:
    """Return the CPUs that this grant keeps from all other containers."""
    if grant is None or world.settings.policy is PolicyName.NONE:
        return EMPTY
    return grant.cpus | grant.leaving.cpus if grant.leaving else grant.cpus
