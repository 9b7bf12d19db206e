"""Waiting for what a real kernel, engine or daemon does in its own time: on a condition, with a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

SECONDS: Final = 15.0
"""Far beyond what anything here takes, even on a busy machine."""

PATIENCE: Final = float(os.environ.get("CPUSET_TESTS_PATIENCE", "1"))
"""How many times longer to wait for what must come, and between two looks, where machines are emulated."""

INSTANT: Final = 0.05 * (PATIENCE - 1)
"""Seconds for which what another program wrote may stand before the hand has answered it: none where machines are not
emulated, since it is a fraction of a millisecond there. In an emulated one the hand's CPU waits for those that look.
"""

_PAUSE: Final = 0.005 * PATIENCE


def eventually(look: Callable[[], T | None], what: str, *, seconds: float = SECONDS) -> T:
    """Look until the answer is true, and return it; AssertionError with the last answer if it never is."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; last seen: {found!r}")
        time.sleep(_PAUSE)


def stays(look: Callable[[], object], what: str, *, seconds: float) -> None:
    """Look for this long, and check that the answer stays true: for what must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert look(), f"it did not stay so: {what}"
        time.sleep(_PAUSE)
