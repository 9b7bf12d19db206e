"""Sizes that people order: what may be ordered, and the books once it was."""

from __future__ import annotations

from sidecar.decide.facts import ResizeRequested
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.model import Scale


def objection(world: World, container: str, cpus: int) -> str:
    """Why this container cannot be ordered to have so many CPUs, as a sentence with its cure; "" if it can."""
    assignment, known = world.state.assignments.get(container), world.containers.get(container)
    if known is None:
        return "there is no such container"
    name = known.view.name
    if world.settings.policy is not PolicyName.DYNAMIC:
        return f"the policy is {world.settings.policy}: only under dynamic may CPUs change while a container runs"
    if assignment is None:
        return f"{name} has no exclusive CPUs"
    demand = assignment.demand
    if demand.floor == demand.ceiling:
        return f"the size of {name} is fixed at {demand.cpus}: give it cpuset.min or cpuset.max"
    if demand.scale is not Scale.MANUAL:
        return f"the size of {name} is decided by {demand.scale}: give it cpuset.scale=manual"
    if not demand.floor <= cpus <= demand.ceiling:
        return f"{name} may have {demand.floor} to {demand.ceiling} CPUs (cpuset.min, cpuset.max), not {cpus}"
    return ""


def after_resize(world: World, fact: ResizeRequested) -> World:
    """The world once a size was ordered; what may not be ordered changes nothing."""
    assignment = world.state.assignments.get(fact.container)
    if assignment is None or objection(world, fact.container, fact.cpus):
        return world
    return replace(world, state=world.state.holding(replace(assignment, ordered=fact.cpus)))
