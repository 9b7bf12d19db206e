"""How many CPUs a node can give exclusively, to everybody together: what it may tell a scheduler that only counts."""

from __future__ import annotations

from sidecar.decide.options import FULL_PCPUS_ONLY
from sidecar.decide.policies.granting import may_go
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet, union
from state.model import State


def capacity(world: World) -> int:
    """How many CPUs could be exclusive here at once, if nobody held any yet. 0 under the policy none."""
    return len(_givable(world, replace(world.state, assignments={}, refusals={})))


def free(world: World) -> int:
    """How many of these nobody holds now."""
    return len(_givable(world, world.state))


def _givable(world: World, state: State) -> CPUSet:
    """A largest set of CPUs that may be given together: not reserved, not a stranger's, and leaving a shared pool.

    What is kept back for the shared pool are the last ones. One demand of this size may still be refused, for how its
    CPUs would lie.
    """
    settings = world.settings
    if settings.policy is PolicyName.NONE:
        return CPUSet()
    there = state.assignable - world.strangers
    if settings.isolated is IsolatedRule.ONLY:
        there &= world.topology.isolated
    if FULL_PCPUS_ONLY in settings.options:
        units = [core.cpus for core in world.topology.cores if core.cpus <= there]
    else:
        units = [CPUSet.of(cpu) for cpu in there]
    # Isolated CPUs are not in the shared pool: keeping them back would leave it nothing.
    units.sort(key=lambda cpus: not cpus <= world.topology.isolated)
    while units and may_go(world, state, union(units)) is not None:
        units.pop()
    return union(units)
