"""SimulatedUse: how busy a simulated container is, and what the kernel would count for it.

A container that wants more CPUs than it has uses all that it has, and one of its tasks is always waiting; with enough
CPUs none is. The pressure is the kernel's average over ten seconds: it rises and falls slowly.
"""

from __future__ import annotations

import math

from sidecar.decide.books.load_sample import Usage


class SimulatedUse:
    """The counters of one start of one container, as of a time `at` in seconds."""

    def __init__(self, wanted: float, at: float) -> None:
        self.wanted = wanted
        """The CPUs that it would use if it had them."""
        self._at = at
        self._used_seconds = 0.0
        self._waited_seconds = 0.0
        self._pressure = 0.0

    def advance(self, now: float, cpus: int) -> None:
        """Count the use until now on this number of CPUs."""
        seconds, self._at = now - self._at, now
        waiting = 1.0 if self.wanted > cpus else 0.0
        self._used_seconds += min(self.wanted, cpus) * seconds
        self._waited_seconds += waiting * seconds
        self._pressure = 100 * waiting + (self._pressure - 100 * waiting) * math.exp(-seconds / 10)

    def usage(self) -> Usage:
        """Return the kernel's counters, as of the last advance."""
        return Usage(
            cpu_nanoseconds=round(self._used_seconds * 1e9),
            waiting_microseconds=round(self._waited_seconds * 1e6),
            pressure=self._pressure,
        )
