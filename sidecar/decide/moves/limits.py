"""What an update contains in addition to CPUs: the CPU limit and the memory nodes that a container should have now.

A limit set in nano CPUs is lifted to the most that the engine accepts, one set as a quota to -1. No other way can be
undone, because an engine forgets the difference at the next start. Only lifted limits are restored: a limit that
another tool has changed since is left alone. An original above what the engine accepts now is restored in part.

A runtime that asks lifts the limit as it starts a container, and the engine shows the original all the same. An order
writes the limit before long; but if the grant ends first, also while the sidecar is down, the original is written again
(`IN_BUNDLE`).

Memory nodes are changed only if a label asks for it. An engine cannot clear them, so a container that had none is left
with all of the machine's. While a lost order that changes them may still take effect, they are written again, as limits
are.
"""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.container.originals import NANO, cpu_limit, originals_of
from sidecar.decide.container.place import cpus_of
from sidecar.decide.orders import Update
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet
from state.demand import MemsRule
from state.model import IN_BUNDLE
from state.topology import Topology


def update_to(world: World, container: Container, cpus: CPUSet) -> Update:
    """Return the update that moves a container to these CPUs, with the limit and memory nodes that it should have."""
    view = container.view
    # A lost order may take effect just before this one, so limits and memory nodes are written again.
    again = container.may_change_unseen or _is_lifted_unseen(world, container)
    nano, quota = _limits(world, container, is_unsure=again)
    mems = memory_for(world, container)
    return Update(
        cpus=cpus,
        nano_cpus=nano if nano > 0 and (again or nano != view.nano_cpus) else None,
        cpu_quota=quota if quota != 0 and (again or quota != view.cpu_quota) else None,
        mems=str(mems) if mems and (container.may_change_memory or mems != cpus_of(view.mems, EMPTY)) else None,
    )


def is_throttled(world: World, container: Container) -> bool:
    """Return whether its grant lifts its CPU limit, and the kernel may still have that, as far as the engine's record
    tells. An engine shows an update before the kernel has it, so one that is not over counts, and so does a limit that
    a glance does not show. A strict start lifts it in the bundle. Where an engine forgets updates, a look shows what
    the kernel has, whatever is ordered.
    """
    view, order, assignment = container.view, container.order, world.state.assignments.get(container.view.key)
    if assignment is None or not assignment.is_lifting or (container.is_strict and not view.forgets_updates):
        return False
    before = world.state.originals.get(view.key)
    if view.is_glance:
        return before is None or cpu_limit(before) > 0
    is_lost = container.may_change_unseen and before is not None and cpu_limit(before) > 0
    is_ahead = order is not None and not view.forgets_updates and (order.update.nano_cpus or order.update.cpu_quota)
    if is_lost or is_ahead:
        return True
    return 0 < view.nano_cpus < _ceiling(world, view.engine) * NANO or view.cpu_quota > 0


def memory_of(topology: Topology, cpus: CPUSet) -> CPUSet:
    """Return the ids of the memory nodes of these CPUs: their own nodes, or for a node without memory the nearest one
    with memory. Empty if nothing is known of memory.
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


def _limits(world: World, container: Container, *, is_unsure: bool) -> tuple[int, int]:
    """Return the CPU limit to write now, as nano CPUs and quota; 0 for one that is not to be changed. With `is_unsure`,
    a limit that shows as the original may be lifted all the same.
    """
    view = container.view
    before = world.state.originals.get(view.key) or originals_of(view)
    most = _ceiling(world, view.engine) * NANO
    assignment = world.state.assignments.get(view.key)
    if assignment is not None and assignment.is_lifting:
        # One that people set while it has its CPUs is lifted as well.
        is_set = before.nano_cpus > 0 or view.nano_cpus > 0
        return most if is_set else 0, -1 if before.cpu_quota > 0 or view.cpu_quota > 0 else 0
    lifts = world.state.lifts.get(view.key, ())
    is_ours = view.nano_cpus in lifts or (is_unsure and bool(lifts) and view.nano_cpus == before.nano_cpus)
    is_lifted = view.cpu_quota == -1 or (is_unsure and view.cpu_quota == before.cpu_quota)
    return min(before.nano_cpus, most) if is_ours else 0, before.cpu_quota if is_lifted else 0


def _is_lifted_unseen(world: World, container: Container) -> bool:
    """Return whether a container without a grant that lifts its limit may have been started with the limit lifted."""
    key = container.view.key
    grant = world.state.assignments.get(key)
    is_lifting = grant is not None and grant.is_lifting
    return not (is_lifting or container.is_idle) and IN_BUNDLE in world.state.lifts.get(key, ())


def _ceiling(world: World, engine: str) -> int:
    """Return the highest CPU limit of an engine, in CPUs. Some count CPUs when they start, others at each request."""
    online, info = len(world.topology.online), world.info_of(engine)
    return min(info.ncpu, online) if info else online


def memory_for(world: World, container: Container) -> CPUSet:
    """Return the memory nodes that a container should have now; empty if the sidecar does not place its memory."""
    view = container.view
    if container.wish.mems is not MemsRule.FOLLOW or container.keeps_mems:
        return EMPTY
    assignment = world.state.assignments.get(view.key)
    if assignment is not None:
        return memory_of(world.topology, assignment.cpus)
    before = world.state.originals.get(view.key)
    if before is None or not (view.mems or container.may_change_memory):
        return EMPTY
    return cpus_of(before.mems, EMPTY) or CPUSet(world.topology.memory)
