"""Sizes ordered by people: which may be ordered, and the State after an order."""

from __future__ import annotations

from sidecar.decide.books.sizes import core_for, least_of, most_of
from sidecar.decide.facts import ResizeRequested
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World, replace
from state.demand import Scale
from state.key import ContainerKey
from state.model import Assignment
from state.refusal import Fixed, Named, Range, Refusal, RefusalCode, Scaled, UnderPolicy


def objection(world: World, container: ContainerKey, cpus: int) -> Refusal | None:
    """Return why this container cannot be resized to so many CPUs; None if it can."""
    assignment, known = world.state.assignments.get(container), world.containers.get(container)
    if known is None:
        return Refusal(RefusalCode.UNKNOWN_CONTAINER)
    name = known.view.name
    if world.settings.policy is not PolicyName.DYNAMIC:
        return Refusal(RefusalCode.WRONG_POLICY, UnderPolicy(world.settings.policy.value))
    asked = known.wish.demand
    if assignment is None and asked and asked.floor < asked.ceiling and asked.scale is not Scale.MANUAL:
        # Its label is in the way first: with CPUs of its own it could not be resized either.
        return Refusal(RefusalCode.NOT_ELASTIC, Scaled(name, asked.scale.value))
    if assignment is None:
        return Refusal(RefusalCode.NOT_GRANTED, Named(name))
    demand = assignment.demand
    if demand.floor == demand.ceiling:
        return Refusal(RefusalCode.NOT_ELASTIC, Fixed(name, demand.cpus))
    if demand.scale is not Scale.MANUAL:
        return Refusal(RefusalCode.NOT_ELASTIC, Scaled(name, demand.scale.value))
    if not demand.floor <= cpus <= demand.ceiling:
        may_have = Range(name=name, floor=demand.floor, ceiling=demand.ceiling, asked=cpus)
        return Refusal(RefusalCode.OUT_OF_RANGE, may_have)
    return None


def size_of_order(world: World, assignment: Assignment) -> int:
    """Return the size that an ordered number comes to: in whole units, no less than the grant can shrink to, and no
    more than it may have since its ceiling was lowered.

    Without an order it is what the grant has.
    """
    if assignment.ordered is None:
        return len(assignment.cpus)
    unit = core_for(world, assignment.demand, assignment.cpus)
    ordered = assignment.ordered - assignment.ordered % unit
    return max(least_of(world, assignment), min(ordered, most_of(world, assignment)))


def after_resize(world: World, fact: ResizeRequested) -> World:
    """Return the world after a resize was ordered; unchanged if the size may not be ordered."""
    assignment = world.state.assignments.get(fact.container)
    if assignment is None or objection(world, fact.container, fact.cpus):
        return world
    return replace(world, state=world.state.holding(replace(assignment, ordered=fact.cpus)))
