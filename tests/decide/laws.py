"""The laws that hold after every step of every history, checked against what containers really do."""

from __future__ import annotations

from sidecar.decide.facts import Phase
from sidecar.decide.orders import ApplyCpuset
from sidecar.decide.plan import SLOTS, desired, is_settled
from sidecar.decide.swarm import is_over
from sidecar.decide.takes import held
from sidecar.decide.world import Container, IsolatedRule, Standing, World
from state.cpuset import EMPTY, CPUSet, union
from state.invariants import violations
from state.model import MemsRule
from tests.decide.real import Real
from tests.decide.reality import Reality
from tests.decide.roomlaws import held_without_room
from tests.decide.strictstarts import answered_wrongly
from tests.decide.takelaws import taken_unfairly, unfair


def broken(reality: Reality) -> list[str]:
    """Every law that is broken now, as sentences."""
    return [
        *violations(reality.world.state, reality.world.topology),
        *held_without_room(reality.world),
        *_footprints_are_honest(reality),
        *_orders_are_safe(reality),
        *_settled_means_alone(reality),
        *_projections_are_true(reality),
        *_one_order_each(reality),
        *_originals_are_remembered(reality),
        *_tasks_that_ended_hold_nothing(reality),
        *taken_unfairly(reality),
        *answered_wrongly(reality),
    ]


def _footprints_are_honest(reality: Reality) -> list[str]:
    """A container runs nowhere but in its footprint, unless something happened that nobody has looked at yet."""
    found = []
    for id, container in reality.world.containers.items():
        real = reality.containers.get(id)
        if real is None or _is_unseen(reality, real):
            continue
        confined = reality.world.group if real.is_member and reality.world.group else container
        outside = (real.effective or EMPTY if real.is_member else real.reaches(reality.online)) - CPUSet.from_mask(
            confined.footprint
        )
        if outside & reality.world.state.online:
            found.append(f"{real.name} runs on {outside}, outside its footprint")
    return found


def _is_unseen(reality: Reality, real: Real) -> bool:
    """Whether something happened to it, or to the group that it lives in, that nobody has told yet."""
    group = reality.group if real.is_member else None
    return real.is_dirty or reality.is_being_looked_at(real.id) or (group is not None and group.is_dirty)


def _orders_are_safe(reality: Reality) -> list[str]:
    found = []
    for order in reality.new_orders:
        container = reality.world.containers[order.container]
        name = container.view.name
        cpus = order.update.cpus
        if not cpus:
            found.append(f"{name} was ordered onto no CPU")
        if not cpus <= reality.world.state.online:
            found.append(f"{name} was ordered onto {cpus}, not all online")
        granted = reality.world.state.assignments.get(order.container)
        holds = granted.cpus if granted else EMPTY
        if order.live and (lost := (container.seen & holds) - cpus):
            found.append(f"{name} was moved off {lost}, which it is granted")
        if both := _shared_isolated(reality.world, cpus, holds):
            found.append(f"{name} was ordered onto {both}, which are isolated, and shares them")
        found += _conflicts(reality.world, order, holds)
    return found


def _shared_isolated(world: World, cpus: CPUSet, holds: CPUSet) -> CPUSet:
    """Isolated CPUs that a container without a grant is sent to, where these are for exclusive containers."""
    is_meant = world.settings.isolated is not IsolatedRule.IGNORE and not world.is_releasing
    return cpus & world.topology.isolated - world.state.reserved if is_meant and not holds else EMPTY


def _conflicts(world: World, order: ApplyCpuset, holds: CPUSet) -> list[str]:
    """Who else may be on the CPUs that this order enters."""
    container = world.containers[order.container]
    entered = order.update.cpus - world.state.reserved
    if order.live:
        entered = entered - container.seen
    found = []
    for id, other in world.containers.items():
        is_exclusive = id in world.state.assignments
        if id == order.container or other.wish.standing in (Standing.UNMANAGED, Standing.MEMBER):
            continue
        conflict = is_exclusive or (bool(holds) and order.live)
        if not order.live and not holds:
            conflict = False
            if is_exclusive and (entered & world.state.assignments[id].cpus):
                conflict = True
        if (
            conflict
            and (both := entered & CPUSet.from_mask(other.footprint))
            and not _is_newcomer_of_pool(order, holds)
        ):
            found.append(f"{container.view.name} was ordered onto {both}, where {other.view.name} may be")
        granted = held(world.state.assignments[id], other) if is_exclusive else EMPTY
        if both := entered & granted:
            found.append(f"{container.view.name} was ordered onto {both}, granted to {other.view.name}")
    return found


def _is_newcomer_of_pool(order: ApplyCpuset, holds: CPUSet) -> bool:
    return not order.live and not holds


def _settled_means_alone(reality: Reality) -> list[str]:
    """A settled container really runs on its grant, and nobody who was looked at runs or could start there."""
    found = []
    for id, container in reality.world.containers.items():
        if not is_settled(reality.world, container):
            continue
        real, granted = reality.containers.get(id), held(reality.world.state.assignments[id], container)
        if real is None or _is_unseen(reality, real) or not real.phase.is_live:
            continue
        if real.effective is not None and real.effective != granted:
            found.append(f"{real.name} is settled on {granted} and runs on {real.effective}")
        found += [
            f"{real.name} is settled on {granted}, and {other.name} runs on {other.reaches(reality.online)}"
            for other in _accounted(reality)
            if other.id != id
            and not (other.is_member and other.effective is None)
            and not other.reaches(reality.online).isdisjoint(granted)
        ]
    return found


def _accounted(reality: Reality) -> list[Real]:
    """Containers that the daemon manages and that nothing unseen happened to."""
    return [
        real
        for real in reality.containers.values()
        if not _is_unseen(reality, real)
        and real.id in reality.world.containers
        and reality.world.containers[real.id].wish.standing is not Standing.UNMANAGED
    ]


def _projections_are_true(reality: Reality) -> list[str]:
    """The projected file names no CPU that the container does not have."""
    return [
        f"{real.name} is told {told} and has {real.effective}"
        for real in _accounted(reality)
        if real.effective is not None
        and (container := reality.world.containers[real.id]).view.phase.is_live
        and (told := reality.world.sure_of(container))
        and not told & reality.online <= real.effective
    ]


def _one_order_each(reality: Reality) -> list[str]:
    busy = [order.container for order in reality.flight if order.container in reality.containers]
    found = [f"{id[-4:]} has two orders outstanding" for id in set(busy) if busy.count(id) > 1]
    known = sum(
        1
        for each in reality.world.containers.values()
        if each.pending and not each.is_delayed and not (each.is_strict and each.is_idle)
    )
    if known > SLOTS:
        found.append(f"{known} orders are outstanding at once")
    return found


def _originals_are_remembered(reality: Reality) -> list[str]:
    """What the engine forgets at the first update stands in the books for as long as the container exists."""
    found = []
    for real in reality.containers.values():
        known = reality.world.state.originals.get(real.id)
        if real.is_ours and (known is None or (known.nano_cpus, known.cpu_quota) != real.limits):
            found.append(f"{real.name} had limits {real.limits}, and the books say {known}")
    return found


def _tasks_that_ended_hold_nothing(reality: Reality) -> list[str]:
    """Swarm never starts a task again: once it is seen as ended, nothing is kept for it."""
    world = reality.world
    if not world.is_ready:
        return []
    over = [c.view for c in world.containers.values() if is_over(c.view) and c.is_idle]
    return [f"{view.name} is a task that ended, and holds CPUs" for view in over if view.id in world.state.assignments]


def unfinished(reality: Reality) -> list[str]:
    """What is not as it should be once everything has been answered, looked at, and nothing is on its way."""
    world, found = reality.world, []
    strangers = union(
        CPUSet.from_mask(c.footprint) for c in world.containers.values() if c.wish.standing is Standing.STRANGER
    )
    for id, container in world.containers.items():
        real = reality.containers[id]
        wanted = desired(world, container)
        if real.held is not None:
            found.append(f"the start of {real.name} was never answered")
        if real.is_member and real.effective is not None and (both := real.effective & world.state.exclusive):
            found.append(f"{real.name} runs on {both} in its group, which is exclusive")
        if container.waits:
            found.append(f"{real.name} waits for a retry that never comes")
        if container.is_idle and real.phase is not Phase.RESTARTING and id in world.state.assignments:
            found.append(f"{real.name} does not run and keeps CPUs {world.state.assignments[id].cpus} for ever")
        if wanted is None:
            continue
        if real.phase.is_live and real.effective != wanted and (wanted - strangers) - (real.effective or EMPTY):
            found.append(f"{real.name} should run on {wanted} and runs on {real.effective}")
        granted = world.state.assignments.get(id)
        if granted and real.phase.is_live and granted.cpus.isdisjoint(strangers) and not is_settled(world, container):
            found.append(f"{real.name} never settled on {granted.cpus}")
        most = min(len(reality.online), len(reality.present)) * 10**9
        limits = (min(real.limits[0], most), real.limits[1])
        if not granted and container.pending is None and (real.nano_cpus, real.cpu_quota) not in (limits, real.limits):
            found.append(f"{real.name} had limits {real.limits} and keeps {real.nano_cpus}, {real.cpu_quota}")
        if container.pending is None and (wrong := _wrong_memory(world, container, real)):
            found.append(wrong)
        if not granted and real.phase.is_live and (both := (real.effective or EMPTY) & world.state.exclusive):
            found.append(f"{real.name} still runs on {both}, which is exclusive")
    found += unfair(world)
    if set(world.containers) != set(reality.containers):
        found.append("the world and the engine disagree about who exists")
    return found


def _wrong_memory(world: World, container: Container, real: Real) -> str:
    """Memory nodes follow the CPUs where that is asked, as long as the engine takes them; else they are as created."""
    granted = world.state.assignments.get(real.id)
    follows = container.wish.demand is not None and container.wish.demand.mems is MemsRule.FOLLOW
    if granted and follows and not container.keeps_mems:
        nodes = {world.topology.node_of[cpu].id for cpu in granted.cpus} & set(world.topology.memory)
        return "" if set(CPUSet.parse(real.mems)) == nodes else f"{real.name} has memory {real.mems}, not {nodes}"
    everything = str(CPUSet(world.topology.memory))
    is_back = real.mems in (real.memory_nodes, everything if not real.memory_nodes else real.memory_nodes)
    return "" if is_back or container.keeps_mems else f"{real.name} keeps memory {real.mems}"
