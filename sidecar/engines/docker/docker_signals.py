"""When a signal through the engine would do more than be delivered. Measured on Docker 20.10; the source of later
versions agrees.

Docker understands its kill route as a request to end the container. Unless the container has a stop signal of its own
that differs from this one:

- its restart policy is forgotten until the next manual start: when it ends by itself it stays down;
- a paused container is resumed.

So no signal is sent if either would matter.
"""

from __future__ import annotations

import enum
import signal as signals

from sidecar.failures import EngineRefused

_DIGITS = 9
"""Digits of a number that is read as one. The engine checks no signal of an image, and the highest is 64."""


class SideEffect(enum.Enum):
    """What a signal would do in addition to being delivered."""

    RESTART_POLICY_FORGOTTEN = "the engine would forget its restart policy"
    RESUMED = "it is paused, and the engine would resume it"


def side_effect(signal: str, *, stop_signal: str, restarts: bool, is_paused: bool) -> SideEffect | None:
    """Return what this signal (`HUP`) would do to a container in addition to being delivered; None for nothing."""
    if stop_signal and _number(stop_signal) != _number(signal):
        return None
    if restarts:
        return SideEffect.RESTART_POLICY_FORGOTTEN
    return SideEffect.RESUMED if is_paused else None


def refused(effect: SideEffect, signal: str) -> EngineRefused:
    """Return the error for a signal that is not sent because of its side effect, with the cure."""
    cure = f"set a stop signal of its own that is not SIG{_bare(signal)} (`stop_signal: SIGTERM` in compose)"
    return EngineRefused(f"{effect.value}; {cure}")


def _bare(signal: str) -> str:
    return signal.upper().removeprefix("SIG")


def _number(signal: str) -> int | str:
    """Return a signal in one spelling: engines take names with and without SIG, in any case, and numbers."""
    bare = _bare(signal.strip())
    if bare.isascii() and bare.isdigit() and len(bare) <= _DIGITS:
        return int(bare)
    known = signals.Signals.__members__.get(f"SIG{bare}")
    return bare if known is None else int(known)
