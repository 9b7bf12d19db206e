"""Why the sizes of grants change in one decision, as the Causes that the State records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sidecar.decide.books.resize import size_of_order
from sidecar.decide.books.sizes import least_for, least_of, most_of, unit_for, wish_for
from sidecar.decide.world import World, replace
from state.cause import (
    Cause,
    CeilingSank,
    FewerToShare,
    Pinned,
    Resized,
    SharedAnew,
    Spare,
    Supplied,
    TakenOver,
    Used,
    WantsFewer,
)
from state.cpuset import EMPTY, CPUSet
from state.demand import Scale
from state.model import Assignment

_NAMES: Final = 3
"""Names that a cause lists at most; it also has their number."""


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """What else happened in the same decision: the names of containers that arrived, and of those that grew; and the
    CPUs that grants left because other containers were pinned there by hand.
    """

    arrived: tuple[str, ...] = ()
    grew: tuple[str, ...] = ()
    pinned: CPUSet = EMPTY


def losses(world: World, assignment: Assignment, lost: CPUSet, events: Events) -> tuple[tuple[CPUSet, Cause], ...]:
    """Return why a grant lost each of these CPUs: those above its ceiling for that, and the rest for what decides the
    size of a grant at its ceiling.
    """
    unit, most = unit_for(world, assignment.demand, assignment.cpus), most_of(world, assignment)
    above = len(assignment.cpus) - most
    above += -above % unit
    if not 0 < above < len(lost):
        return ((lost, why_lost(world, assignment, len(lost), events)),)
    sank = CPUSet(list(lost)[-above:])
    rest, left = lost - sank, replace(assignment, cpus=assignment.cpus - sank)
    return (sank, CeilingSank(most)), (rest, why_lost(world, left, len(rest), events))


def why_lost(world: World, assignment: Assignment, count: int, events: Events) -> Cause:
    """Return why a grant lost so many CPUs: what decided its size."""
    most = most_of(world, assignment)
    if len(assignment.cpus) > most >= len(assignment.cpus) - count:
        return CeilingSank(most)
    match assignment.demand.scale:
        case Scale.MANUAL if assignment.ordered is not None and size_of_order(world, assignment) < len(assignment.cpus):
            return _resized(world, assignment, assignment.ordered)
        case Scale.LOAD if (used := _used(world, assignment)) is not None and _wants_no_more(world, assignment, count):
            return used
    if wants := _wants_fewer(world, assignment, count):
        return wants
    if not events.arrived and events.pinned:
        return Pinned(events.pinned)
    if others := events.arrived or events.grew:
        floor, kept = _floor_of(world, assignment, count)
        return SharedAnew(
            name=assignment.name,
            count=count,
            floor=floor,
            kept=kept,
            names=others[:_NAMES],
            others=len(others),
            is_growth=not events.arrived,
        )
    return fewer_to_share(world, assignment, count)


def fewer_to_share(world: World, assignment: Assignment, count: int) -> Cause:
    """Return why a grant lost so many CPUs if the machine or a setting alone leaves fewer, or it wants no more."""
    if wants := _wants_fewer(world, assignment, count):
        return wants
    floor, kept = _floor_of(world, assignment, count)
    return FewerToShare(name=assignment.name, count=count, floor=floor, kept=kept)


def taken_over(world: World, assignment: Assignment, count: int, arrived: str) -> Cause:
    """Return why a grant lost so many CPUs to a container of this name, which arrived."""
    floor, kept = _floor_of(world, assignment, count)
    return TakenOver(name=assignment.name, count=count, floor=floor, kept=kept, arrived=arrived)


def given_to(world: World, assignment: Assignment, count: int, others: Sequence[str]) -> Cause:
    """Return why a grant lost so many CPUs to the containers of these names, which lacked CPUs of their least size."""
    floor, kept = _floor_of(world, assignment, count)
    return Supplied(
        name=assignment.name,
        count=count,
        floor=floor,
        kept=kept,
        names=tuple(others[:_NAMES]),
        others=len(others),
    )


def why_gained(world: World, assignment: Assignment, count: int) -> Cause:
    """Return why a grant gained so many CPUs: its load only if that was measured at its present size."""
    match assignment.demand.scale:
        case Scale.MANUAL if assignment.ordered is not None:
            return _resized(world, assignment, assignment.ordered)
        case Scale.LOAD if (used := _used(world, assignment)) is not None and used.of == len(assignment.cpus):
            return used
    return Spare(count, assignment.demand.ceiling)


def _wants_fewer(world: World, assignment: Assignment, lost: int) -> WantsFewer | None:
    """Return that a grant wants fewer CPUs than it had, if that alone is why it lost some; None if others are why."""
    wish = wish_for(world, assignment)
    is_own = wish < len(assignment.cpus) and _wants_no_more(world, assignment, lost)
    return WantsFewer(wish) if is_own and wish < most_of(world, assignment) else None


def _wants_no_more(world: World, assignment: Assignment, lost: int) -> bool:
    """Return whether a grant wants no more CPUs by its load than it keeps: else the load is not why it lost any."""
    return max(wish_for(world, assignment), least_of(world, assignment)) <= len(assignment.cpus) - lost


def _used(world: World, assignment: Assignment) -> Used | None:
    """Return the use that was measured, of the CPUs that it had then; None if it was not measured."""
    load = world.loads.get(assignment.container)
    return Used(round(load.use, 1), load.cpus) if load else None


def _resized(world: World, assignment: Assignment, ordered: int) -> Resized:
    size = size_of_order(world, assignment)
    return Resized(ordered, 0 if size == ordered else size)


def _floor_of(world: World, assignment: Assignment, lost: int) -> tuple[int, int]:
    """Return the floor of a grant in whole units, and what it keeps after losing so many CPUs if that is more; else 0.
    One that was made under other options may keep less than whole cores.
    """
    least = least_of(world, assignment)
    floor = min(least_for(world, assignment.demand), least)
    return floor, least if floor < least <= len(assignment.cpus) - lost else 0
