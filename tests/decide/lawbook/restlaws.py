"""What holds at rest: every order was answered, every container looked at, and all is as it should be."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.container.container import Container
from sidecar.decide.container.line import Paused
from sidecar.decide.facts import Phase
from sidecar.decide.moves.settled import desired
from sidecar.decide.step import step
from sidecar.decide.world import World
from sidecar.projection.projection_of import projection_of
from state.cpuset import EMPTY, CPUSet
from state.demand import MemsRule
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality


def still_moving(reality: Reality) -> list[str]:
    """Report a history that never comes to rest: a deadlock or a loop."""
    return [] if reality.came_to_rest else ["it never does"]


def unknown(reality: Reality) -> list[str]:
    """Return differences between the containers that the daemon knows and those that exist."""
    is_same = set(reality.world.containers) == set(reality.containers)
    return [] if is_same else ["the world and the engine disagree about who exists"]


def _known_pairs(reality: Reality) -> Iterator[tuple[Container, Real]]:
    for id, container in reality.world.containers.items():
        if real := reality.containers.get(id):
            yield container, real


def unanswered(reality: Reality) -> list[str]:
    """Return starts that are still held."""
    return [f"the start of {real.name} was never answered" for real in reality.containers.values() if real.held]


def never_retried(reality: Reality) -> list[str]:
    """Return containers in a pause that no timer ends."""
    everybody = _known_pairs(reality)
    return [
        f"{real.name} waits for a retry that never comes"
        for container, real in everybody
        if isinstance(container.line, Paused)
    ]


def kept_for_nothing(reality: Reality) -> list[str]:
    """Return grants of containers that neither run nor are about to."""
    assignments = reality.world.state.assignments
    return [
        f"{real.name} does not run and keeps CPUs {assignments[real.key].cpus} for ever"
        for container, real in _known_pairs(reality)
        if container.is_idle and real.phase is not Phase.RESTARTING and real.key in assignments
    ]


def elsewhere(reality: Reality) -> Iterator[str]:
    """Yield containers that are not where they should be."""
    for container, real in _known_pairs(reality):
        wanted = desired(reality.world, container)
        if wanted is None or not real.phase.is_live or real.effective == wanted:
            continue
        if wanted - (real.effective or EMPTY):
            yield f"{real.name} should run on {wanted} and runs on {real.effective}"


def never_settled(reality: Reality) -> list[str]:
    """Return grants of live containers that are not settled."""
    assignments = reality.world.state.assignments
    return [
        f"{real.name} never settled on {granted.cpus}"
        for container, real in _known_pairs(reality)
        if (granted := assignments.get(real.key))
        and real.phase.is_live
        and not projection_of(reality.world, container).settled
    ]


def among_the_exclusive(reality: Reality) -> Iterator[str]:
    """Yield containers of the pool, and members of its group, that still run on exclusive CPUs."""
    world = reality.world
    for container, real in _known_pairs(reality):
        both = (real.effective or EMPTY) & world.state.exclusive
        if not both or real.key in world.state.assignments:
            continue
        if real.is_member or desired(world, container) is not None:
            yield f"{real.name} still runs on {both}, which is exclusive"


def told_too_little(reality: Reality) -> list[str]:
    """Return members of the shared pool's group whose files lack CPUs that they are configured for and have. A release
    puts the group back where it was, be that offline.
    """
    world, online = reality.world, reality.online
    if world.is_releasing:
        return []
    return [
        f"{real.name} has {real.effective}, of {real.configured(online)}, and is told {told or 'none'}"
        for container, real in _known_pairs(reality)
        # A lost order to a container pinned by hand since may still take effect: no other order follows it.
        if real.is_member and real.effective is not None and not container.may_change_unseen
        if not real.effective & real.configured(online) <= (told := world.sure_of(container))
    ]


def has_its_limits(real: Real, online: CPUSet) -> bool:
    """Return whether a container has the CPU limits that it was created with, where the engine accepts them."""
    most, had = len(online) * 10**9, real.had
    return real.cpu_quota == had.cpu_quota and real.nano_cpus in (had.nano_cpus, min(had.nano_cpus, most))


def lifted_for_nothing(reality: Reality) -> list[str]:
    """Return limits that were lifted, and not restored when the grant ended."""
    return [
        f"{real.name} had limits {real.had} and keeps {real.limits}"
        for container, real in _ours(reality)
        if real.key not in reality.world.state.assignments and not has_its_limits(real, reality.online)
    ]


def with_wrong_memory(reality: Reality) -> list[str]:
    """Return memory nodes that are neither those of the CPUs nor the original ones."""
    everybody = _ours(reality)
    return [wrong for container, real in everybody if (wrong := wrong_memory(reality.world, container, real))]


def _ours(reality: Reality) -> Iterator[tuple[Container, Real]]:
    """Yield containers that the daemon may order, and that have no order outstanding."""
    for container, real in _known_pairs(reality):
        is_ours = real.phase is not Phase.DEAD and container.order is None
        if is_ours and desired(reality.world, container) is not None:
            yield container, real


def wrong_memory(world: World, container: Container, real: Real) -> str:
    """Return how memory nodes are wrong; "" if they are right. They follow the CPUs where that is requested and the
    engine accepts it; elsewhere they are as created.
    """
    granted = world.state.assignments.get(real.key)
    follows = container.wish.demand is not None and container.wish.demand.mems is MemsRule.FOLLOW
    if granted and follows and not container.keeps_mems:
        nodes = {world.topology.node_of[cpu].id for cpu in granted.cpus} & set(world.topology.memory)
        return "" if set(CPUSet.parse(real.mems)) == nodes else f"{real.name} has memory {real.mems}, not {nodes}"
    everything = str(CPUSet(world.topology.memory))
    is_back = real.mems in (real.had.mems, real.had.mems or everything)
    return "" if is_back or container.keeps_mems else f"{real.name} keeps memory {real.mems}"


def not_given_back(reality: Reality) -> list[str]:
    """Return containers whose original settings are not restored, although a release was requested."""
    world = reality.world
    return [f"{id.id[-4:]} was never given back" for id in world.state.originals] if world.is_releasing else []


def moved_again(reality: Reality) -> list[str]:
    """Return what begins after one more look at everything."""
    reality.take_inventory()
    moving = reality.flight or reality.timers or reality.looks or reality.pulls
    return [f"it was at rest, and then {moving} came"] if moving else []


def replayed_otherwise(reality: Reality) -> list[str]:
    """Return a sentence if the journal of this life gives another World."""
    world = reality.first
    for burst in reality.bursts:
        world, _ = step(world, burst)
    return [] if world == reality.world else ["the replayed journal gives another world"]
