"""When a signal through the engine would do more than be delivered. Measured on Docker 20.10; the source of later ones
says the same.

Docker takes its kill route for the wish that the container ends. Unless the container has a stop signal of its own, and
it is another one than this:

- its restart policy is forgotten until somebody starts it again: when it ends by itself it stays down;
- a paused container is resumed.

So where either would matter, no signal is sent.
"""

from __future__ import annotations

import signal as signals


def objection(signal: str, *, stop_signal: str, restarts: bool, is_paused: bool) -> str:
    """Why this signal (`HUP`) may not be sent to a container, with the cure; "" where it may."""
    if stop_signal and _number(stop_signal) != _number(signal):
        return ""
    cure = f"set a stop signal of its own that is not SIG{_bare(signal)} (`stop_signal: SIGTERM` in compose)"
    if restarts:
        return f"the engine would forget its restart policy; {cure}"
    if is_paused:
        return f"it is paused, and the engine would resume it; {cure}"
    return ""


def _bare(signal: str) -> str:
    return signal.upper().removeprefix("SIG")


def _number(signal: str) -> int | str:
    """Engines take names with and without SIG, in any case, and numbers."""
    bare = _bare(signal.strip())
    if bare.isascii() and bare.isdigit():
        return int(bare)
    known = signals.Signals.__members__.get(f"SIG{bare}")
    return bare if known is None else int(known)
