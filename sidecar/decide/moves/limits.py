"""What an update says besides CPUs: the CPU limit that a container should have now, and its memory nodes.

A limit set in nano CPUs is lifted to the most that the engine takes, one set as a quota to -1: any other way cannot be
undone (an engine forgets the difference at the next start). Only what was lifted is put back: a limit that somebody
else changed since is theirs. An original that is more than the engine takes now is put back in part.

Memory nodes are touched only where a label asks for it. An engine cannot clear them, so a container that had none gets
all of the machine's back.
"""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.container.originals import NANO, originals_of
from sidecar.decide.container.place import cpus_of
from sidecar.decide.orders import Update
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet
from state.model import MemsRule, QuotaRule
from state.topology import Topology


def update_to(world: World, container: Container, cpus: CPUSet) -> Update:
    """The call that brings a container there, with its limit and memory as they should be there."""
    view = container.view
    nano, quota = _limits(world, container)
    # An order that was lost may land just before this one: its limits are said again.
    again = container.may_change_unseen
    mems = memory_for(world, container)
    return Update(
        cpus=cpus,
        nano_cpus=nano if nano > 0 and (again or nano != view.nano_cpus) else None,
        cpu_quota=quota if quota != 0 and (again or quota != view.cpu_quota) else None,
        mems=str(mems) if mems and mems != cpus_of(view.mems, EMPTY) else None,
    )


def memory_of(topology: Topology, cpus: CPUSet) -> CPUSet:
    """The ids of the memory nodes of these CPUs: their own nodes, or for a node without memory the nearest that has
    some. Empty where nothing is known of memory.
    """
    found = []
    for node in topology.nodes:
        if node.cpus.isdisjoint(cpus):
            continue
        far = topology.distances.get(node.id, {})
        known = [id for id in topology.memory if id == node.id or id in far]
        if known:
            found.append(min(known, key=lambda id: (id != node.id, far.get(id, 0), id)))
    return CPUSet(found)


def _limits(world: World, container: Container) -> tuple[int, int]:
    """The CPU limit that a container should be given now, as (nano CPUs, quota); 0 where there is nothing to do."""
    view = container.view
    before = world.state.originals.get(view.key) or originals_of(view)
    most = _ceiling(world) * NANO
    assignment = world.state.assignments.get(view.key)
    if assignment is not None and assignment.demand.quota is QuotaRule.LIFT:
        return most if before.nano_cpus > 0 else 0, -1 if before.cpu_quota > 0 else 0
    lifts = world.state.lifts.get(view.key, ())
    is_ours = view.nano_cpus in lifts or (
        container.may_change_unseen and bool(lifts) and view.nano_cpus == before.nano_cpus
    )
    is_lifted = view.cpu_quota == -1 or (container.may_change_unseen and view.cpu_quota == before.cpu_quota)
    return min(before.nano_cpus, most) if is_ours else 0, before.cpu_quota if is_lifted else 0


def _ceiling(world: World) -> int:
    """CPUs that a limit may have at most. An engine counts them when it starts, or when it is asked."""
    online = len(world.topology.online)
    return min(world.engine.ncpu, online) if world.engine else online


def memory_for(world: World, container: Container) -> CPUSet:
    """The memory nodes that a container should have now; empty where that is not ours to say."""
    view = container.view
    if container.wish.mems is not MemsRule.FOLLOW or container.keeps_mems:
        return EMPTY
    assignment = world.state.assignments.get(view.key)
    if assignment is not None:
        return memory_of(world.topology, assignment.cpus)
    before = world.state.originals.get(view.key)
    if before is None or not view.mems:
        return EMPTY
    return cpus_of(before.mems, EMPTY) or CPUSet(world.topology.memory)
