"""Why a grant changed, as sentences for people, of the facts of a Cause. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from sidecar.words.counts import counted, cpus, some
from state.cause import (
    Cause,
    FewerToShare,
    ForOthers,
    Level,
    Resized,
    SharedAnew,
    Spare,
    Surplus,
    TakenOver,
    Together,
    Used,
)
from state.refusal import Said

_LEVELS: Final = {Level.NODE: "NUMA node", Level.CACHE: "cache", Level.CORE: "core"}


def why(cause: Cause) -> str:
    """Why a grant changed; begins small, and has no full stop."""
    match cause:
        case Said():
            return cause.text
        case Resized():
            return f"it was resized to {cpus(cause.cpus)}"
        case Used():
            return f"it used {cause.use:.1f} of its {cpus(cause.of)}"
        case TakenOver():
            took = f"arrival of {cause.arrived} took {cause.count}"
            return f"{took}, from what {cause.name} had above its floor of {cause.floor}"
        case SharedAnew():
            names = some(cause.names, of=cause.others)
            happened = f"{names} may have a larger share" if cause.is_growth else f"arrival of {names}"
            return f"{happened}: {_surplus(cause)} is shared out anew"
        case FewerToShare():
            return f"the machine, or a setting, leaves fewer CPUs to share out: {_surplus(cause)} went"
        case Spare():
            spare = "1 CPU was" if cause.count == 1 else f"{cause.count} CPUs were"
            return f"{spare} spare, as its share up to its ceiling of {cause.ceiling}"
        case Together():
            return f"moved together: on {counted(cause.now, _LEVELS[cause.level])} instead of {cause.before}"
        case ForOthers():
            return "moved so that others lie better"
    assert_never(cause)


def _surplus(cause: Surplus) -> str:
    return f"{cause.count} of what {cause.name} had above its floor of {cause.floor}"
