"""Where a container should run, whether it does, and whether it is alone there."""

from __future__ import annotations

from sidecar.decide.container.container import Container
from sidecar.decide.moves.release import released_to
from sidecar.decide.policies.registry import policy_named
from sidecar.decide.takes import held
from sidecar.decide.world import World
from state.cpuset import CPUSet


def desired(world: World, container: Container) -> CPUSet | None:
    """Where a container should run, by the policy or because everything is being given back; None: not ours to say."""
    if world.is_releasing:
        return released_to(world, container)
    return policy_named(world.settings.policy).desired(world, container)


def is_there(container: Container, cpus: CPUSet) -> bool:
    """Whether it runs on exactly these CPUs, would start there, and nothing that was lost can change that."""
    return container.place.configured == cpus == container.place.seen and not container.may_change_unseen


def is_settled(world: World, container: Container) -> bool:
    """Whether an exclusive container runs exactly on its grant, with nothing outstanding, and truly alone. What is
    leaving it is its own for as long as it may stay there.
    """
    assignment = world.state.assignments.get(container.view.id)
    if assignment is None or container.is_idle or not world.is_ready:
        return False
    return (
        container.footprint == held(assignment, container).mask == container.sure.mask
        and container.order is None
        and not world.reach.others(container.footprint) & container.footprint
    )
