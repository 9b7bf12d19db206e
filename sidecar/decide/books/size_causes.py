"""Why the sizes of grants change in one decision, as the Causes that the State records."""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.books.sizes import least_of, wish_for
from sidecar.decide.world import World
from state.cause import Cause, FewerToShare, Resized, SharedAnew, Spare, Used
from state.demand import Scale
from state.model import Assignment

_NAMES: Final = 3
"""Names that a cause lists at most; it also has their number."""


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """What else happened in the same decision: the names of containers that arrived, and of those that grew."""

    arrived: tuple[str, ...] = ()
    grew: tuple[str, ...] = ()


def why_lost(world: World, assignment: Assignment, count: int, events: Events) -> Cause:
    """Return why a grant lost so many CPUs: what decided its size."""
    match assignment.demand.scale:
        case Scale.MANUAL if assignment.ordered is not None and assignment.ordered < len(assignment.cpus):
            return Resized(assignment.ordered)
        case Scale.LOAD if (used := _used(world, assignment)) is not None and _wants_no_more(world, assignment, count):
            return used
    name, floor = assignment.name, least_of(world, assignment)
    if others := events.arrived or events.grew:
        return SharedAnew(
            name=name,
            count=count,
            floor=floor,
            names=others[:_NAMES],
            others=len(others),
            is_growth=not events.arrived,
        )
    return FewerToShare(name=name, count=count, floor=floor)


def why_gained(world: World, assignment: Assignment, count: int) -> Cause:
    """Return why a grant gained so many CPUs: its load only if that was measured at its present size."""
    match assignment.demand.scale:
        case Scale.MANUAL if assignment.ordered is not None:
            return Resized(assignment.ordered)
        case Scale.LOAD if (used := _used(world, assignment)) is not None and used.of == len(assignment.cpus):
            return used
    return Spare(count, assignment.demand.ceiling)


def _wants_no_more(world: World, assignment: Assignment, lost: int) -> bool:
    """Return whether a grant wants no more CPUs by its load than it keeps: else the load is not why it lost any."""
    return max(wish_for(world, assignment), least_of(world, assignment)) <= len(assignment.cpus) - lost


def _used(world: World, assignment: Assignment) -> Used | None:
    """Return the use that was measured, of the CPUs that it had then; None if it was not measured."""
    load = world.loads.get(assignment.container)
    return Used(round(load.use, 1), load.cpus) if load else None
