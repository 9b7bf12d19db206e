"""Why CPUs moved, as sentences for people: they stand in the books, in the projection and in what `explain` says."""

from __future__ import annotations

from typing import Final

import msgspec

from sidecar.decide.world import World
from state.model import Assignment, Scale

_SHOWN: Final = 3
"""Names in one sentence; of more, their number."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """What else happened in the same decision: who arrived, and who grew."""

    arrived: tuple[str, ...] = ()
    grew: tuple[str, ...] = ()


def why_lost(world: World, assignment: Assignment, count: int, cause: Cause) -> str:
    """Why a grant lost so many CPUs."""
    match assignment.demand.scale:
        case Scale.MANUAL if _ordered_below(assignment):
            return f"it was resized to {_cpus(assignment.ordered or 0)}"
        case Scale.LOAD if _used(world, assignment) is not None and not cause.arrived:
            return f"it used {_used(world, assignment)} of its {_cpus(len(assignment.cpus))}"
    of = f"{count} of what {assignment.name} had above its floor of {assignment.demand.floor}"
    if cause.arrived:
        return f"arrival of {_named(cause.arrived)}: {of} is shared out anew"
    if cause.grew:
        return f"{_named(cause.grew)} may have a larger share: {of} is shared out anew"
    return f"the machine, or a setting, leaves fewer CPUs to share out: {of} went"


def why_gained(world: World, assignment: Assignment, count: int) -> str:
    """Why a grant gained so many CPUs."""
    match assignment.demand.scale:
        case Scale.MANUAL:
            return f"it was resized to {_cpus(assignment.ordered or assignment.demand.cpus)}"
        case Scale.LOAD if _used(world, assignment) is not None:
            return f"it used {_used(world, assignment)} of its {_cpus(len(assignment.cpus))}"
    spare = "1 CPU was" if count == 1 else f"{count} CPUs were"
    return f"{spare} spare, as its share up to its ceiling of {assignment.demand.ceiling}"


def _ordered_below(assignment: Assignment) -> bool:
    return assignment.ordered is not None and assignment.ordered < len(assignment.cpus)


def _used(world: World, assignment: Assignment) -> str | None:
    load = world.loads.get(assignment.container)
    return f"{load.use:.1f}" if load else None


def _named(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"
