"""Why the sizes of grants change in one decision, as the Causes that the State records."""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.books.sizes import least_of
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
    """Return why a grant lost so many CPUs."""
    match assignment.demand.scale:
        case Scale.MANUAL if assignment.ordered is not None and assignment.ordered < len(assignment.cpus):
            return Resized(assignment.ordered)
        case Scale.LOAD if (used := _used(world, assignment)) is not None and not events.arrived:
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
    """Return why a grant gained so many CPUs."""
    match assignment.demand.scale:
        case Scale.MANUAL if assignment.ordered is not None:
            return Resized(assignment.ordered)
        case Scale.LOAD if (used := _used(world, assignment)) is not None:
            return used
    return Spare(count, assignment.demand.ceiling)


def _used(world: World, assignment: Assignment) -> Used | None:
    load = world.loads.get(assignment.container)
    return Used(round(load.use, 1), len(assignment.cpus)) if load else None
