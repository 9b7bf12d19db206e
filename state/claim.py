"""Claiming: State of releases that knew one engine only becomes that of the engine that the daemon finds.

There, containers were recorded under their ids alone. Nothing recorded their engine, but there was only one, so they
are assigned to the first engine that answers. Nothing may be forgotten before that, since the original settings of
these containers are recorded nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment, Refused, State

T = TypeVar("T")

replace = msgspec.structs.replace


def claimed(state: State, engine: str) -> State:
    """Return the State with everything that is recorded under an id alone recorded under this engine's key.

    Return the same State if there is nothing to claim. An existing entry of that key is newer, and stays.
    """
    recorded = (*state.assignments, *state.refusals, *state.originals, *state.lifts, *state.lapsed, *state.held_back)
    if not engine or all(key.engine for key in recorded):
        return state
    return replace(
        state,
        assignments={key: _granted(each, key) for key, each in _by_key(state.assignments, engine).items()},
        refusals={key: _refused(each, key) for key, each in _by_key(state.refusals, engine).items()},
        originals=_by_key(state.originals, engine),
        lifts=_by_key(state.lifts, engine),
        lapsed=tuple(_by_key(dict.fromkeys(state.lapsed), engine)),
        held_back=_by_key(state.held_back, engine),
    )


def _by_key(mapping: Mapping[ContainerKey, T], engine: str) -> dict[ContainerKey, T]:
    named = {key: key if key.engine else ContainerKey(engine, key.id) for key in mapping}
    return {named[key]: each for key, each in mapping.items() if named[key] == key or named[key] not in mapping}


def _granted(assignment: Assignment, key: ContainerKey) -> Assignment:
    return replace(assignment, demand=_asked(assignment.demand, key))


def _refused(refused: Refused, key: ContainerKey) -> Refused:
    return replace(refused, container=key, demand=_asked(refused.demand, key) if refused.demand else None)


def _asked(demand: Demand, key: ContainerKey) -> Demand:
    return replace(demand, container=key)
