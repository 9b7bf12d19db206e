"""Once: what is derived from a world and one of its grants is computed once, as long as both stay the same.

A refit asks the same of each grant for each other one that lost CPUs. The answers are remembered in the world itself,
as its cached properties are: a change is a new world, which remembers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar, TypeVarTuple

from sidecar.decide.world import World
from state.model import Assignment

T = TypeVar("T")
Rest = TypeVarTuple("Rest")


def once(function: Callable[[World, Assignment, *Rest], T]) -> Callable[[World, Assignment, *Rest], T]:
    """Return the function, which is pure and has hashable arguments after the grant, asked once for each of them."""

    @wraps(function)
    def asked(world: World, grant: Assignment, *rest: *Rest) -> T:
        question: Hashable = (function, id(grant), rest)
        known = world.derived.get(question)
        if known is None:
            # With the grant: its id is not given to another one meanwhile.
            known = world.derived[question] = (grant, function(world, grant, *rest))
        return known[1]  # type: ignore[return-value]

    return asked
