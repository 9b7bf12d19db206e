"""Notices: what one start of a container read in its files about leaving CPUs, and whether that was kept.

A reader that samples sees a notice later than it was written, and a loss later than it happened. So the time of a
notice counts from the last moment without the notice, to the last moment with the CPU. A reader that sees every change
as it happens leaves no gap between these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from state.cpuset import CPUSet
from state.projection import Projection

SLACK: Final = 1e-6
"""Seconds. Sums of floating point seconds; files give milliseconds, and round."""

ROUNDING: Final = 0.001
"""Seconds: to what a deadline in a file is rounded."""


@dataclasses.dataclass
class Notice:
    """A leaving CPU: the generation that announced it, when that was read, and until when it was promised at least."""

    generation: int
    read_at: float
    until: float


class Notices:
    """Reads what the file says, in the order of its generations; answers when CPUs are lost."""

    def __init__(self) -> None:
        self._last: Projection | None = None
        self._notices: dict[int, Notice] = {}

    @property
    def cpus(self) -> CPUSet:
        """The CPUs that are announced as leaving."""
        return CPUSet(self._notices)

    def read(self, told: Projection, at: float, unsaid_at: float) -> None:
        """Record what the file says at the time `at`, and did not at the time `unsaid_at`. What it said already, it
        promised.
        """
        if told == self._last:
            return
        self._last = told
        for cpu in told.leaving:
            notice = self._notices.setdefault(cpu, Notice(told.generation, at, unsaid_at))
            notice.until = max(notice.until, unsaid_at + (told.deadline_seconds or 0.0))
        for cpu in told.cpus - told.leaving:
            # A growth cancelled it.
            self._notices.pop(cpu, None)

    def forget(self, left: CPUSet) -> None:
        """Keep only the notices of these CPUs."""
        self._notices = {cpu: notice for cpu, notice in self._notices.items() if cpu in left}

    def read_for(self, cpus: CPUSet, at: float) -> list[float]:
        """Return for how many seconds the notices of these CPUs have been read by then; only of those that have one."""
        return [at - self._notices[cpu].read_at for cpu in cpus if cpu in self._notices]

    def answers(self, cpus: CPUSet) -> range:
        """Return the generations that listed all these CPUs as leaving, without a break; none if there are none."""
        if self._last is None or not cpus <= self.cpus:
            return range(0)
        first = max((self._notices[cpu].generation for cpu in cpus), default=self._last.generation + 1)
        return range(first, self._last.generation + 1)

    def are_acknowledged(self, cpus: CPUSet, acks: Iterable[int]) -> bool:
        """Return whether one of these answers acknowledges the leaving of all these CPUs."""
        answers = self.answers(cpus)
        return any(number in answers for number in acks)

    def fault(self, cpus: CPUSet, at: float, acks: Iterable[int], grace: float = 0.0) -> str:
        """Return what is wrong with their loss, if they were there until `at`; "" if nothing is. A notice for each of
        them must have been read for at least its `grace`, and for as long as any file promised, or been acknowledged.
        """
        if not cpus <= self.cpus:
            return "without notice"
        if self.are_acknowledged(cpus, acks):
            return ""
        noticed, until = min(self.read_for(cpus, at)), max(self._notices[cpu].until for cpu in cpus)
        if noticed < grace - SLACK:
            return f"after {noticed:.4f} of {grace:g} s"
        if at < until - ROUNDING:
            return f"{until - at:.4f} s before the time that its file gave it"
        return ""
