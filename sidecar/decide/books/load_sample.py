"""From what the kernel counts to a load: what a container did between two samples.

1. A load lies between two samples of one start. Counters that went backwards, or another start, begin anew.
2. The time between them is real: a round may be late.
3. Nobody uses more than it has: what exceeds that is the clock's and the counter's disagreement, and would ask for a
   CPU too many just where all are busy.
4. The peak halves every half-life.
5. Pressure must be there over ten seconds and over the period: the average over ten seconds still speaks of the CPUs
   that were missing when they have long come, and one period alone may be a moment's crowd.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from sidecar.decide.facts import Load
from state.key import ContainerKey


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a container's processes have used since its cgroup was made: counters that begin anew with each start.

    `throttled` counts the periods in which its quota stopped it. `waiting_microseconds` is for how long some task
    waited for a CPU (PSI `some`), None where the kernel does not say; `pressure` the share of that in the last 10 s, in
    percent.
    """

    cpu_nanoseconds: int
    throttled: int = 0
    waiting_microseconds: int | None = None
    pressure: float = 0.0


class Sample(NamedTuple):
    """What a container had used by a time (in seconds), on how many CPUs, since which start."""

    at: float
    usage: Usage
    cpus: int
    started_at: str


class Peak(NamedTuple):
    """The highest use in CPUs, as it counted at a time (in seconds)."""

    use: float = 0.0
    at: float = 0.0

    def after(self, seconds: float, half_life: float) -> float:
        """What is left of it after so many seconds."""
        return float(self.use * 0.5 ** (seconds / half_life))


def load_between(container: ContainerKey, before: Sample, after: Sample, peak: Peak, half_life: float) -> Load | None:
    """The load between two samples; None where they have nothing to do with each other."""
    seconds = after.at - before.at
    used = after.usage.cpu_nanoseconds - before.usage.cpu_nanoseconds
    # 1. One start.
    if seconds <= 0 or used < 0 or after.started_at != before.started_at:
        return None
    # 2. and 3. Over the real time, and no more than it had.
    use = min(used / (seconds * 1e9), float(max(before.cpus, after.cpus)))
    return Load(
        container=container,
        cpus=after.cpus,
        use=use,
        # 4. The peak.
        peak=max(use, peak.after(after.at - peak.at, half_life)),
        pressure=_pressure(before.usage, after.usage, seconds),
        is_throttled=after.usage.throttled > before.usage.throttled,
    )


def _pressure(before: Usage, after: Usage, seconds: float) -> float:
    # 5. Now, and for a while.
    if before.waiting_microseconds is None or after.waiting_microseconds is None:
        return 0.0
    waited = max(0, after.waiting_microseconds - before.waiting_microseconds)
    return min(waited / (seconds * 1e4), after.pressure)
