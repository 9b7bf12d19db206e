"""The law of reasons: what a change of a grant names as its cause happened in the same burst, to each of its CPUs."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.decide.books.grants import options_of
from sidecar.decide.books.sizes import wish_for
from sidecar.decide.facts import SettingsChanged, TopologyRead
from sidecar.decide.placement.whole_cores import unit_of
from sidecar.decide.world import World
from sidecar.words.causes import why
from sidecar.words.changes import new_moves
from state.cause import (
    BecameReserved,
    Cause,
    CeilingSank,
    Completed,
    FewerToShare,
    NumberOnly,
    Pinned,
    SharedAnew,
    Supplied,
    Surplus,
    TakenOver,
    WantsFewer,
    WentOffline,
)
from state.demand import Scale
from state.model import KEPT_MOVES, Assignment, Move
from tests.support.decide.reality import Reality


def untrue(reality: Reality) -> list[str]:
    """Return the changes of the last burst whose reason did not happen in it, as sentences."""
    before, now = reality.planned_from.state, reality.world.state
    found = []
    for key, after in now.assignments.items():
        was = before.assignments.get(key)
        if was is None or was.since != after.since or was.moves == after.moves:
            continue
        moves = new_moves(was, after)
        if len(moves) == KEPT_MOVES:
            continue
        size = len(was.cpus)
        for place, move in enumerate(moves, 1):
            size += len(move.gained) - len(move.lost)
            wrong = [*_wrong(reality, after, move.cause, size), *_of_another(reality, move)]
            wrong += _of_other_cpus(reality, was, move)
            if isinstance(move.cause, Surplus):
                wrong += _miscounted(reality, after, move.cause, len(move.lost))
                if place == len(moves) and len(after.cpus) < max(move.cause.floor, move.cause.kept):
                    wrong.append(f"it has {after.cpus}")
            found += [f"{after.name}: {why(move.cause)!r}, but {each}" for each in wrong]
    return found


def _wrong(reality: Reality, after: Assignment, cause: Cause, size: int) -> Iterator[str]:
    """Yield what did not happen of a cause. The move left the grant this size: a later one may have given it others."""
    before, world = reality.planned_from, reality.world
    facts = reality.bursts[-1] if reality.bursts else ()
    is_adapted = not before.is_answered or any(isinstance(each, TopologyRead | SettingsChanged) for each in facts)
    granted = {each.name for each in world.state.assignments.values() if _is_new(reality, each)}
    grew = {each.name for each in world.state.assignments.values() if _grew(reality, each)}
    match cause:
        case FewerToShare() if not is_adapted:
            yield "neither the machine nor a setting changed"
        case FewerToShare() if wish_for(world, after) <= size and after.demand.scale is Scale.MANUAL:
            yield f"it wants {wish_for(world, after)}, whatever there is to share"
        case WantsFewer() if cause.cpus != wish_for(world, after) or cause.cpus > len(after.cpus):
            yield f"it wants {wish_for(world, after)}"
        case CeilingSank() if cause.ceiling not in _ceilings(world, after) or not (is_adapted or _sank(before, after)):
            yield "its ceiling is another, or neither that nor a setting changed"
        case NumberOnly() if not is_adapted:
            yield "no setting changed"
        case TakenOver() if cause.arrived not in granted:
            yield "that was granted nothing"
        case SharedAnew() if not cause.is_growth and not set(cause.names) <= granted:
            yield "not all of these were granted CPUs"
        case SharedAnew() | Supplied() if not set(cause.names) <= grew | granted:
            yield "not all of these gained CPUs"
        case Pinned() if not is_adapted and cause.cpus.isdisjoint(world.strangers):
            yield "no container is pinned there"
        case WentOffline() | BecameReserved() if not is_adapted:
            yield "nothing went"
        case Completed() if len(after.cpus) < cause.cpus:
            yield f"it has {after.cpus}"


def _of_other_cpus(reality: Reality, was: Assignment, move: Move) -> Iterator[str]:
    """Yield which of the CPUs that a change gave up went for another reason than it names."""
    world, cause = reality.world, move.cause
    offline = move.lost - world.topology.online
    reserved = move.lost & world.topology.online & world.state.reserved - reality.recorded.reserved
    match cause:
        case WentOffline():
            if wrong := move.lost - offline:
                yield f"{wrong} are online"
        case BecameReserved():
            if wrong := move.lost - reserved:
                yield f"{wrong} are not"
        case _:
            if gone := offline | reserved:
                yield f"{gone} went offline or became reserved"
    match cause:
        case WentOffline() | BecameReserved() | Pinned() if (named := cause.cpus & was.cpus) and not move.lost <= named:
            yield f"it lost {move.lost}"
        case CeilingSank(ceiling=ceiling):
            unit = unit_of(world.topology, options_of(world, was.demand))
            above = len(was.cpus) - ceiling
            if len(move.lost) > above + -above % unit:
                yield f"it had {was.cpus}, and lost {move.lost} for that"
        case _:
            pass


def _ceilings(world: World, grant: Assignment) -> tuple[int, ...]:
    """Return its ceiling, as it was said and in whole cores."""
    ceiling, unit = grant.demand.ceiling, unit_of(world.topology, options_of(world, grant.demand))
    return ceiling, ceiling - ceiling % unit


def _sank(before: World, after: Assignment) -> bool:
    """Return whether a container may have fewer than it asked for before: a look showed what it asks for now."""
    was = before.state.assignments.get(after.container)
    return was is not None and after.demand.ceiling < was.demand.ceiling


def _of_another(reality: Reality, move: Move) -> Iterator[str]:
    """Yield which of the CPUs that a container took when it arrived another one has that arrived with it."""
    if isinstance(move.cause, TakenOver):
        for other in reality.world.state.assignments.values():
            is_another = other.name != move.cause.arrived and _is_new(reality, other)
            if is_another and (theirs := move.lost & other.cpus):
                yield f"{other.name} arrived and has {theirs}"


def _miscounted(reality: Reality, after: Assignment, cause: Surplus, lost: int) -> Iterator[str]:
    """Yield which number of a cause is wrong."""
    unit = unit_of(reality.world.topology, options_of(reality.world, after.demand))
    if cause.count != lost:
        yield f"it lost {lost}"
    if cause.floor not in (floor := after.demand.floor, floor + -floor % unit):
        yield f"its floor is {floor}"


def _is_new(reality: Reality, after: Assignment) -> bool:
    before = reality.planned_from.state.assignments.get(after.container)
    return before is None or before.since != after.since


def _grew(reality: Reality, after: Assignment) -> bool:
    before = reality.planned_from.state.assignments.get(after.container)
    return before is not None and not after.cpus <= before.cpus
