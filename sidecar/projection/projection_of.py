"""The Projection of each container, never ahead of the kernel.

A CPU is in force when the container was last seen on it and no order that is outstanding or in doubt takes it away:
gained CPUs are announced after the kernel confirms them, lost ones before the order leaves.
"""

from __future__ import annotations

from sidecar.decide.books.give_up import refused_now
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.mounts import projection_name
from sidecar.decide.facts import ViewKind
from sidecar.decide.moves.alone import has_company, is_alone
from sidecar.decide.moves.never_alone import is_never_alone
from sidecar.decide.moves.settled import awaits_answer, desired, is_settled
from sidecar.decide.moves.signals import told_of
from sidecar.decide.moves.timers import notice_of
from sidecar.decide.world import World
from sidecar.words.reasons import reason_of
from state.cpuset import EMPTY, CPUSet
from state.key import SYSTEMD, ContainerKey
from state.model import Assignment
from state.projection import Projection, Sharing


def has_projection(world: World, container: Container) -> bool:
    """Return whether a container has a projection: each has, and a unit of the host if it asks for CPUs of its own."""
    if container.view.kind is not ViewKind.UNIT:
        return True
    key, wish = container.view.key, container.wish
    asks = wish.demand or wish.refusal or key in world.state.assignments or refused_now(world, key)
    return bool(asks) and key.engine == SYSTEMD


def may_be_told(world: World, container: ContainerKey, *, told: CPUSet | None = None) -> bool:
    """Return whether the projection of a container is written from this world. While its engine is away it stays as it
    is, but where that silence is not safety, and where an owner is not alone any more: by what the kernel shows,
    because what it was told to own is not its own now, or because it is not where it was told to be alone, as one that
    rests and whose runtime asks. `told` is where that was: nowhere if it was not alone; None if it was told to own
    nothing.
    """
    if not world.is_absent(container) or world.is_blind:
        return True
    known, is_owner = world.containers.get(container), told is not None or container in world.state.assignments
    if known is None or not is_owner:
        return False
    is_elsewhere = told is not None and bool(told.mask & ~known.footprint)
    return is_elsewhere or has_company(world, known)


def projection_of(world: World, container: Container) -> Projection:
    """Return this container's present projection; the writer adds number and time."""
    assignment = world.state.assignments.get(container.view.key)
    wanted = assignment.cpus if assignment else _wanted(world, container)
    sure = wanted if awaits_answer(world, container) else world.sure_of(container)
    leaving = told_of(container, assignment).leaving if assignment else EMPTY
    return Projection(
        container=container.view.id,
        name=container.view.name,
        policy=world.settings.policy.value,
        sharing=_sharing(container, is_granted=assignment is not None),
        cpus=sure,
        desired=wanted,
        original=assignment.original if assignment else EMPTY,
        leaving=leaving,
        arriving=wanted - sure,
        deadline_seconds=_deadline(world, assignment, leaving) if assignment and leaving else None,
        alone=is_alone(world, container),
        never_alone=is_never_alone(world, container),
        settled=is_settled(world, container) if assignment else _is_there(world, container, wanted),
        shared_pool=world.state.shared,
        mems=container.view.mems,
        reason=reason_of(world, container),
    )


def _deadline(world: World, assignment: Assignment, told: CPUSet) -> float:
    """Return the seconds from the beginning of a take until the first of the announced CPUs may be gone.

    Return 0 once one is due. The writer computes how much of that is left, of each take.
    """
    leaving = assignment.leaving
    if leaving is None or leaving.due & told:
        return 0.0
    return min((notice_of(world, assignment, each) for each in leaving.batches if each.cpus & told), default=0.0)


def _wanted(world: World, container: Container) -> CPUSet:
    """Return where a container without a grant should run; for a member, where its group should."""
    if container.wish.standing is Standing.MEMBER and world.group is not None:
        container = world.group
    return desired(world, container) or container.place.seen


def _is_there(world: World, container: Container, wanted: CPUSet) -> bool:
    """Return whether a container without a grant is certainly where it should be: an outstanding order is not yet
    obeyed.
    """
    if container.wish.standing is Standing.MEMBER and not container.is_held_back and world.group is not None:
        return _is_there(world, world.group, wanted)
    is_sure = container.order is None and container.place.seen == world.sure_of(container) == wanted
    return is_sure or awaits_answer(world, container)


def names_of(world: World, container: Container) -> tuple[str, ...]:
    """Return the names below `by-name` for this container; none or one. A unit mounts nothing."""
    if container.view.kind is ViewKind.UNIT:
        return ()
    name = projection_name(container.view, world.settings)
    return (name,) if name else ()


def _sharing(container: Container, *, is_granted: bool) -> Sharing:
    if container.wish.standing in (Standing.STRANGER, Standing.UNMANAGED):
        return Sharing.UNMANAGED
    return Sharing.EXCLUSIVE if is_granted else Sharing.SHARED
