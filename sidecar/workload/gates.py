"""What a workload can wait for before it begins: to be granted CPUs, to be settled, or to be alone on them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

import msgspec

from sidecar.words.past import in_past
from state.errors import ProjectionError, ProjectionMissing
from state.own_directory import may_come, never_comes
from state.projection import Projection, Reading, Sharing, read

_GRANTED_BY: Final = "it gives no reason"
UNVOUCHED: Final = (
    "the daemon that wrote this does not vouch for it: it is stopped or stalled, or does not reach its engine"
)
"""What is known beside a workload, which sees nothing but the files."""


class Until(enum.StrEnum):
    """What to wait for."""

    ALONE = "alone"
    SETTLED = "settled"
    GRANTED = "granted"


class Open(msgspec.Struct, frozen=True):
    """It is so, and the daemon vouches for it."""

    told: Reading


class Shut(msgspec.Struct, frozen=True):
    """It is not so. `is_for_good` if waiting does not help."""

    reason: str
    is_for_good: bool = False


def gate(directory: str, until: Until, why_unvouched: Callable[[], str] = lambda: UNVOUCHED) -> Open | Shut:
    """Return whether the condition holds for the workload of a projection directory. `why_unvouched` tells why the
    daemon does not vouch for it, where more is known.

    The files are read here, since a watch reports CPUs in force: before a start, none are.
    """
    try:
        told = read(directory)
    except ProjectionMissing as error:
        return Shut(str(error)) if may_come(directory) else Shut(never_comes(directory), is_for_good=True)
    except ProjectionError as error:
        return Shut(str(error))
    return gate_of(told, until, why_unvouched)


def gate_of(told: Reading, until: Until, why_unvouched: Callable[[], str] = lambda: UNVOUCHED) -> Open | Shut:
    """Return whether the condition holds. What the daemon does not vouch for neither holds nor is for good."""
    reason = told.reason or _GRANTED_BY
    if not told.vouched:
        return Shut(f"{why_unvouched()}; its last word: {in_past(reason, {told.name})}")
    if _holds(told, until):
        return Open(told)
    return Shut(reason, is_for_good=told.never_alone and until is not Until.SETTLED)


def _holds(told: Projection, until: Until) -> bool:
    match until:
        case Until.ALONE:
            return told.alone
        case Until.SETTLED:
            return told.settled
        case Until.GRANTED:
            return told.sharing is Sharing.EXCLUSIVE
