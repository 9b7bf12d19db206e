"""From the kernel's counters to a load: what a container did between two samples.

1. A load lies between two samples of one start. After another start, or if a counter went backwards, there is no load.
2. The time between the samples is measured, since a round may be late.
3. No container uses more than it has. Any excess is a disagreement between clock and counter, and would ask for one CPU
   too many when all are busy.
4. The peak halves every half-life.
5. Pressure is the lower of its values over ten seconds and over the period. The former still shows a lack of CPUs that
   have long been added, and the latter alone may show a momentary crowd.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from sidecar.decide.facts import Load
from state.key import ContainerKey


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a container's processes have used since its cgroup was created: counters that each start resets.

    `throttled` counts the periods in which its quota stopped it. `waiting_microseconds` is how long some task waited
    for a CPU (PSI `some`), None if the kernel does not report it; `pressure` is the share of that in the last 10 s, in
    percent.
    """

    cpu_nanoseconds: int
    throttled: int = 0
    waiting_microseconds: int | None = None
    pressure: float = 0.0


class Sample(NamedTuple):
    """The usage of a container at a time (in seconds), its number of CPUs then, and the start that it belongs to."""

    at: float
    usage: Usage
    cpus: int
    started_at: str


class Peak(NamedTuple):
    """The highest use in CPUs, as it had decayed at a time (in seconds)."""

    use: float = 0.0
    at: float = 0.0

    def after(self, seconds: float, half_life: float) -> float:
        """Return what is left of it, in CPUs, after so many seconds."""
        return float(self.use * 0.5 ** (seconds / half_life))


def load_between(container: ContainerKey, before: Sample, after: Sample, peak: Peak, half_life: float) -> Load | None:
    """Return the load between two samples; None if they are not comparable."""
    seconds = after.at - before.at
    used = after.usage.cpu_nanoseconds - before.usage.cpu_nanoseconds
    # 1. One start.
    if seconds <= 0 or used < 0 or after.started_at != before.started_at:
        return None
    # 2. and 3. Over the measured time, and no more than it had.
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
    # 5. Over the period and over ten seconds.
    if before.waiting_microseconds is None or after.waiting_microseconds is None:
        return 0.0
    waited = max(0, after.waiting_microseconds - before.waiting_microseconds)
    return min(waited / (seconds * 1e4), after.pressure)
