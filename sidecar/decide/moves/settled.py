"""Where a container should run, whether it does, and whether it is alone there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from sidecar.decide.books.policy import policy_named
from sidecar.decide.books.takes import held
from sidecar.decide.container.container import Container, Standing
from sidecar.decide.container.grip import Guarded
from sidecar.decide.container.originals import cpu_limit
from sidecar.decide.facts import Phase
from sidecar.decide.moves.limits import is_throttled
from sidecar.decide.moves.release import released_to, way_home, way_out
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from state.cpuset import CPUSet
from state.model import Assignment

_GOING: Final = (Phase.REMOVING, Phase.DEAD)


def desires(world: World) -> Callable[[Container], CPUSet | None]:
    """Return the function that tells where a container should run: that of the policy, or of a release in progress. It
    returns None for a container that the sidecar does not place. One that leaves management is put back, and so is one
    that is pinned by hand, and was moved while it asked for CPUs.
    """
    if world.is_releasing:
        return partial(released_to, world)
    if world.settings.policy is PolicyName.NONE:
        return lambda _: None
    placed = partial(policy_named(world.settings.policy).desired, world)

    def where(container: Container) -> CPUSet | None:
        if container.wish.standing in (Standing.MANAGED, Standing.MEMBER):
            return placed(container)
        return way_out(world, container) if container.wish.is_kept_out else way_home(world, container)

    return where


def desired(world: World, container: Container) -> CPUSet | None:
    """Return where a container should run; None if the sidecar does not place it."""
    return desires(world)(container)


def is_there(container: Container, cpus: CPUSet) -> bool:
    """Return whether it runs on exactly these CPUs, would start there, and no lost order can change that."""
    place, mask = container.place, cpus.mask
    return place.configured.mask == mask == place.seen.mask and not container.may_change_unseen


def is_written(container: Container, cpus: CPUSet) -> bool:
    """Return whether the hand wrote these CPUs, and guards it there: its kernel leg is done."""
    return isinstance(container.grip, Guarded) and container.grip.cpus == cpus


def is_settled(world: World, container: Container) -> bool:
    """Return whether an exclusive container runs exactly on its grant, with no order outstanding, and truly alone.
    Leaving CPUs belong to it while it may stay on them. What the hand guards does not wait for the engine's record,
    unless its CPU limit is lifted with that.
    """
    assignment = world.state.assignments.get(container.view.key)
    if assignment is None or container.is_idle or world.is_absent(container.view.key):
        return False
    return (
        container.footprint == held(assignment, container).mask == container.sure.mask
        and (container.order is None or container.is_guarded)
        and not world.reach.others(container.footprint) & container.footprint
        and not is_throttled(world, container)
    )


def awaits_answer(world: World, container: Container) -> bool:
    """Return whether it runs nothing and certainly will not until its runtime is answered: it is placed by the answer.
    What the engine has configured meanwhile means nothing.
    """
    is_asking = container.is_strict and container.is_idle and container.order is None and not container.is_doubtful
    return is_asking and not world.is_releasing and not is_left_alone(world, container)


def is_left_alone(world: World, container: Container) -> bool:
    """Return whether the sidecar does not place it."""
    has_no_policy = world.settings.policy is PolicyName.NONE and not world.is_releasing
    return has_no_policy or container.wish.standing is not Standing.MANAGED


def is_where_it_should_be(
    world: World, container: Container, assignment: Assignment | None, wanted: CPUSet | None
) -> bool:
    """Return whether it needs no change, in the kernel and in the engine's record; for a live container with a grant,
    whether it is settled.
    """
    if assignment and not container.is_idle:
        return is_settled(world, container)
    if container.view.phase in _GOING or awaits_answer(world, container):
        # It will never run again and cannot be moved, or is moved by the answer.
        return True
    return wanted is None or (container.place.seen == container.place.configured == wanted and container.order is None)


def is_quota_lifted(world: World, container: Container, assignment: Assignment | None) -> bool:
    """Return whether it has a grant, had a CPU limit, and has a larger one or none now."""
    before = world.state.originals.get(container.view.key)
    if assignment is None or before is None or not cpu_limit(before) or is_throttled(world, container):
        return False
    now = container.view
    return (now.nano_cpus, now.cpu_quota) != (before.nano_cpus, before.cpu_quota)
