"""Why a grant changed, as sentences for people, of the facts of a Cause. Pure."""

from __future__ import annotations

from typing import Final, assert_never

from sidecar.words.counts import counted, cpus, named, some
from state.cause import (
    BecameReserved,
    ByItsRules,
    Cause,
    CeilingSank,
    Completed,
    FewerToShare,
    ForOthers,
    Gone,
    Level,
    NumberOnly,
    Pinned,
    Resized,
    SharedAnew,
    Spare,
    Supplied,
    Surplus,
    TakenOver,
    Together,
    Used,
    WantsFewer,
    WentOffline,
)
from state.cpuset import CPUSet
from state.model import Assignment
from state.refusal import Said

_LEVELS: Final = {Level.NODE: "NUMA node", Level.CACHE: "cache", Level.CORE: "core"}


def why(cause: Cause) -> str:
    """Return why a grant changed, as a clause: lower case, no full stop."""
    match cause:
        case Said():
            return cause.text
        case Resized():
            whole = f": {cause.size} on whole cores" if cause.size else ""
            return f"it was resized to {cpus(cause.cpus)}{whole}"
        case Used():
            return f"it used {cause.use:.1f} of its {cpus(cause.of)}"
        case TakenOver():
            return f"{cause.arrived} arrived and took {_surplus(cause)}"
        case SharedAnew():
            names = some(cause.names, of=cause.others)
            happened = f"the share of {names} grew" if cause.is_growth else f"{names} arrived"
            return f"{happened}, which redistributes {_surplus(cause)}"
        case Supplied():
            return f"{some(cause.names, of=cause.others)} lacked CPUs of its floor, and took {_surplus(cause)}"
        case FewerToShare():
            return f"the machine or a setting leaves fewer CPUs to share, which takes {_surplus(cause)}"
        case Gone():
            return f"{named(cause.cpus)} went offline or became reserved"
        case WentOffline():
            return f"{named(cause.cpus)} went offline"
        case BecameReserved():
            return f"{named(cause.cpus)} became reserved"
        case CeilingSank():
            return f"it may have at most {cpus(cause.ceiling)} now"
        case WantsFewer():
            return f"it wants {cpus(cause.cpus)} now"
        case Pinned():
            return f"a container that is pinned by hand keeps {named(cause.cpus)}"
        case ByItsRules():
            return "it lies on whole cores and NUMA nodes again as its rules require"
        case Completed():
            return f"it needs at least {cpus(cause.cpus)}"
        case NumberOnly():
            return f"it asks for {cpus(cause.cpus)}, and the policy allows no more"
        case Spare():
            return f"its share of the spare CPUs grew by {cause.count}, within its ceiling of {cause.ceiling}"
        case Together():
            return f"moved closer together: on {counted(cause.now, _LEVELS[cause.level])} instead of {cause.before}"
        case ForOthers():
            return "moved to improve the placement of others"
    assert_never(cause)


def why_leaving(grant: Assignment) -> str:
    """Return why CPUs are being taken from a grant, as a clause; "" if none are. Each has the reason for which it was
    lost: where there are several, each names its CPUs.
    """
    if grant.leaving is None:
        return ""
    parts, rest = list[tuple[CPUSet, str]](), grant.leaving.cpus
    for move in reversed(grant.moves):
        if part := rest & move.lost:
            parts.append((part, why(move.cause)))
            rest -= part
    if rest or not parts:
        parts.append((rest, why(grant.leaving.cause)))
    if len({reason for _, reason in parts}) == 1:
        return parts[0][1]
    return "; ".join(f"{named(cpus)}: {reason}" for cpus, reason in reversed(parts))


def _surplus(cause: Surplus) -> str:
    if cause.kept:
        return f"{cpus(cause.count)} above the {cause.kept} on the original cores of {cause.name}"
    return f"{cpus(cause.count)} above {cause.name}'s floor of {cause.floor}"
