"""A container that was renamed has its new name in all that is recorded of others: why they were refused, and why their
grants changed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from state.cause import Cause, FewerToShare, SharedAnew, Supplied, TakenOver
from state.model import Assignment, Refused, State
from state.refusal import Asked, Neighbours, Refusal, Replaces

replace = msgspec.structs.replace

T = TypeVar("T", bound=msgspec.Struct)

NAMES: Final[Mapping[type, tuple[str, ...]]] = {
    Neighbours: ("holder_names", "stranger_names"),
    Replaces: ("name",),
    TakenOver: ("name", "arrived"),
    SharedAnew: ("name", "names"),
    Supplied: ("name", "names"),
    FewerToShare: ("name",),
}
"""Which fields of a fact are names of containers."""


def with_name(state: State, was: str, now: str) -> State:
    """Return the State in which the facts about others name a container as it is called `now`. The records of the
    container itself, and what is vacant, keep their names. The same State if no fact names it.
    """
    refusals = {key: _refused(each, was, now) for key, each in state.refusals.items()}
    grants = {key: _granted(each, was, now) for key, each in state.assignments.items()}
    if refusals == state.refusals and grants == state.assignments:
        return state
    return replace(state, refusals=refusals, assignments=grants)


def nameless(cause: Cause) -> Cause:
    """Return a cause without the names in it: two that differ only in these are of one change."""
    empty = {field: type(getattr(cause, field))() for field in NAMES.get(type(cause), ())}
    return replace(cause, **empty) if empty else cause


def _refused(each: Refused, was: str, now: str) -> Refused:
    refusal, detail = each.refusal, each.refusal.detail
    if isinstance(detail, Replaces):
        detail = _named(detail, was, now)
    elif isinstance(detail, Asked) and detail.neighbours is not None:
        detail = replace(detail, neighbours=_named(detail.neighbours, was, now))
    return each if detail == refusal.detail else replace(each, refusal=Refusal(refusal.code, detail))


def _granted(each: Assignment, was: str, now: str) -> Assignment:
    moves = tuple(replace(move, cause=_named(move.cause, was, now)) for move in each.moves)
    leaving = each.leaving and replace(each.leaving, cause=_named(each.leaving.cause, was, now))
    return each if (moves, leaving) == (each.moves, each.leaving) else replace(each, moves=moves, leaving=leaving)


def _named(fact: T, was: str, now: str) -> T:
    """Return a fact with the new name in each of its fields that is a name, or several."""
    changed = {field: _renamed(getattr(fact, field), was, now) for field in NAMES.get(type(fact), ())}
    return replace(fact, **changed) if changed else fact


def _renamed(given: str | tuple[str, ...], was: str, now: str) -> str | tuple[str, ...]:
    if isinstance(given, str):
        return now if given == was else given
    return tuple(now if each == was else each for each in given)
