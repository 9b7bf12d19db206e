"""What is said of the units of the host: whether they are confined, and what they are called. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.natural_order import natural
from sidecar.words.counts import agree, counted, some
from state.key import ContainerKey

_SHOWN: Final = 5
"""Names in one sentence; of more, their number."""


PINNED: Final = "has CPUs of its own"
"""Of a unit that was confined by others, and stays there."""

UNDER_NONE: Final = "the policy is none"


class HostConfinement(msgspec.Struct, frozen=True):
    """Whether the host's own processes are confined, and if not, why, as a clause. `holes` are by name the units that
    are not confined all the same, and why.
    """

    is_confining: bool
    why_not: str = ""
    holes: Mapping[str, str] = {}


def noun(key: ContainerKey) -> str:
    """Return what the bearer of this key is, as a field of the log."""
    return "unit" if key.is_unit else "container"


def all_of(containers: int, units: int) -> str:
    """Return how many containers and units there are: `3 containers`, `3 containers and 41 units of the host`."""
    said = [counted(containers, "container")] if containers or not units else []
    return " and ".join([*said, f"{counted(units, 'unit')} of the host"] if units else said)


def confined_told(units: int, holes: Mapping[str, str]) -> str:
    """Return how many units of the host are confined, and which are not, as a clause."""
    said = f"{counted(units, 'unit')} of the host {agree(units, 'is', 'are')} confined to the shared pool"
    return f"{said}; not confined: {holes_told(holes)}" if holes else said


def not_confined_told(why: str) -> str:
    """Return that the host's own processes are not confined, and why, as a clause."""
    return f"the host's own processes are not confined: {why}"


def holes_told(holes: Mapping[str, str]) -> str:
    """Return what is not confined, each with the reason."""
    shown = [f"{name} ({holes[name]})" for name in sorted(holes, key=natural)[:_SHOWN]]
    return some(shown, of=len(holes))
