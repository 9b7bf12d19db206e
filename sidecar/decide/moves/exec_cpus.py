"""Off which of its own CPUs the processes keep that join a container while it runs. Pure.

A label counts wherever the container runs. The node's rule is for containers with CPUs of their own alone: otherwise
the health checks of all that share would begin on one CPU of the pool.
"""

from __future__ import annotations

from typing import Final

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import ViewKind
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from state.cpuset import EMPTY, CPUSet
from state.exec_rule import ExecRule

_ANYWHERE: Final = ExecRule()


def exec_rule(world: World, container: Container) -> ExecRule:
    """Return the rule that counts for a container now."""
    view, wish = container.view, container.wish
    is_left_alone = wish.standing is Standing.UNMANAGED or wish.is_kept_out or world.is_releasing
    if view.kind is not ViewKind.CONTAINER or is_left_alone or world.settings.policy is PolicyName.NONE:
        return _ANYWHERE
    is_owner = view.key in world.state.assignments
    return wish.exec or (world.settings.exec if is_owner else _ANYWHERE)


def exec_cpus(world: World, container: Container) -> CPUSet:
    """Return on which of its CPUs such processes begin; empty if on any, or as long as it is sure of none."""
    rule = exec_rule(world, container)
    if rule == _ANYWHERE:
        return EMPTY
    own = world.sure_of(container)
    chosen = rule.among(own)
    return EMPTY if chosen == own else chosen


def kept_off(world: World, container: Container) -> CPUSet:
    """Return the others of its CPUs: those that a front keeps such processes off."""
    chosen = exec_cpus(world, container)
    return world.sure_of(container) - chosen if chosen else EMPTY
