"""Whether a container is where it should be, as people are told: predicates over the World, which decide nothing."""

from __future__ import annotations

from typing import Final

from sidecar.decide.facts import Phase
from sidecar.decide.plan import is_settled
from sidecar.decide.world import Container, PolicyName, Standing, World
from state.cpuset import CPUSet
from state.model import Assignment

_GOING: Final = (Phase.REMOVING, Phase.DEAD)


def is_left_alone(world: World, container: Container) -> bool:
    """Whether where it runs is not for the sidecar to say."""
    nobody_decides = world.settings.policy is PolicyName.NONE and not world.is_releasing
    return nobody_decides or container.wish.standing is not Standing.MANAGED


def is_where_it_should_be(
    world: World, container: Container, assignment: Assignment | None, wanted: CPUSet | None
) -> bool:
    """Whether nothing is left to do for it; and, of an exclusive one that runs, whether it is alone there."""
    if assignment and not container.is_idle:
        return is_settled(world, container)
    if container.view.phase in _GOING:
        # It will never run again, and cannot be moved either.
        return True
    return wanted is None or (container.seen == container.configured == wanted and container.pending is None)


def is_quota_lifted(world: World, container: Container, assignment: Assignment | None) -> bool:
    """Whether its CPU limit is another now than it was created with."""
    before = world.state.originals.get(container.view.id)
    now = container.view
    return bool(assignment and before and (now.nano_cpus, now.cpu_quota) != (before.nano_cpus, before.cpu_quota))
