"""How long a thread waits for a CPU after it was woken: most of what passes on a busy host before it answers."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from sidecar.hand.libc_calls import read_start

_NANOSECONDS: Final = 1_000_000_000
"""In a second."""


class RunDelay:
    """For how long the calling thread was ready, and had no CPU: never, where the kernel does not say it."""

    def __init__(self) -> None:
        self._fd = -1
        with suppress(OSError):
            self._fd = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float:
        """Return it for all of the thread's life."""
        parts = read_start(self._fd).split() if self._fd >= 0 else []
        return int(parts[1]) / _NANOSECONDS if len(parts) > 1 else 0.0

    def close(self) -> None:
        """Close the descriptor. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
