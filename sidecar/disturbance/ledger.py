"""What ran on some CPUs, and for how long: an account of trace events. Each microsecond belongs to one thing.

A handler interrupts a task, and a hard interrupt also a softirq: their time is not the time of what they interrupted.
A slice is the time for which something ran without being switched out, or until it ended, without what interrupted it.

Some kernels do not tell of the switch from idleness to a task. Then the first event of that task comes in the midst of
its slice, and the next account of its time (`TaskUsed`) tells when the slice began.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sidecar.disturbance.trace_lines import Began, Ended, Event, LostEvents, Source, SwitchedIn, TaskUsed, TraceLine


class Ran(NamedTuple):
    """How often something ran, for how long in all, and its longest slice, in microseconds."""

    times: int = 0
    total: int = 0
    longest: int = 0

    def __add__(self, other: object) -> Ran:
        """Return both together."""
        if not isinstance(other, Ran):
            return NotImplemented
        return Ran(self.times + other.times, self.total + other.total, max(self.longest, other.longest))


Runner = Source | int
"""What ran: a source of interrupts, or a task by its id. Task 0 is idleness."""


class _Running:
    """What is running on a CPU: a task, and the handlers that interrupt it, the innermost last, with their slices."""

    def __init__(self, at: int, task: int) -> None:
        self.at, self.task, self.slice = at, task, 0
        # Since the last event before it, a task may have run that was not told to be switched in.
        self.since, self.gap, self.before = at, 0, task
        self.handlers: list[tuple[Source, int]] = []

    def pass_to(self, at: int) -> None:
        """Let the time until `at` pass for what is running."""
        elapsed, self.at = max(0, at - self.at), max(at, self.at)
        if self.handlers:
            source, ran = self.handlers[-1]
            self.handlers[-1] = source, ran + elapsed
        else:
            self.slice += elapsed


class Ledger:
    """The account of a measurement from `begin` to `end`, in microseconds of the trace clock. What is read of later
    times does not belong to it.
    """

    def __init__(self, begin: int, end: int) -> None:
        self._begin, self._end = begin, end
        self._open: dict[int, _Running] = {}
        self._ran: defaultdict[tuple[int, Runner], Ran] = defaultdict(Ran)
        self.names: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self._lost: defaultdict[int, int] = defaultdict(int)

    def take(self, line: TraceLine | LostEvents) -> None:
        """Enter one event. Those of a CPU come in order."""
        if isinstance(line, LostEvents):
            self._lost[line.cpu] += line.events
            # What began in the gap is not known: it begins anew with the next event.
            self._open.pop(line.cpu, None)
            return
        if line.at > self._end:
            return
        now = self._open.get(line.cpu)
        if now is None:
            # The first task of all has run since the beginning.
            now = self._open[line.cpu] = _Running(line.at if self._lost[line.cpu] else self._begin, line.task)
            self.names.setdefault(line.task, line.task_name)
        if line.task != now.task and not now.handlers:
            self._infer(line, now)
        now.pass_to(line.at)
        self._enter(line.cpu, now, line.event)

    def _infer(self, line: TraceLine, now: _Running) -> None:
        """Let a task run that was not told to be switched in: from this event on, and maybe since the last one."""
        self._settle_gap(line.cpu, now, 0)
        self._close(line.cpu, now.task, now.slice)
        now.before, now.gap = now.task, max(0, line.at - now.at)
        now.task, now.slice = line.task, 0
        now.at = now.since = max(now.at, line.at)
        self.names[line.task] = line.task_name

    def _settle_gap(self, cpu: int, now: _Running, micros: int) -> None:
        """Divide the time in which it is not known what ran: the task has so much of it, what ran before the rest."""
        mine = min(now.gap, max(0, micros))
        now.slice += mine
        self._ran[cpu, now.before] += Ran(0, now.gap - mine, 0)
        now.gap = 0

    def _enter(self, cpu: int, now: _Running, event: Event) -> None:
        if isinstance(event, Began):
            now.handlers.append((event.source, 0))
        elif isinstance(event, Ended):
            if now.handlers and now.handlers[-1][0].kind is event.kind:
                self._close(cpu, *now.handlers.pop())
        elif isinstance(event, SwitchedIn):
            while now.handlers:
                self._close(cpu, *now.handlers.pop())
            self._settle_gap(cpu, now, 0)
            self._close(cpu, now.task, now.slice)
            now.task, now.slice = event.after, 0
            self.names[event.after] = event.after_name
        elif isinstance(event, TaskUsed):
            if event.task == now.task and now.gap:
                self._settle_gap(cpu, now, event.nanoseconds // 1000 - (now.at - now.since))
        else:
            self.parents[event.child] = event.parent

    def _close(self, cpu: int, runner: Runner, slice_: int) -> None:
        self._ran[cpu, runner] += Ran(1, slice_, slice_)

    def so_far(self, at: int) -> Mapping[tuple[int, Runner], Ran]:
        """Return what ran on each CPU until then; the measurement goes on."""
        return copy.deepcopy(self).closed(at)

    def closed(self, at: int | None = None) -> Mapping[tuple[int, Runner], Ran]:
        """End the measurement, at its end or earlier, and return what ran on each CPU."""
        for cpu, now in self._open.items():
            now.pass_to(self._end if at is None else min(at, self._end))
            for source, ran in now.handlers:
                self._close(cpu, source, ran)
            self._settle_gap(cpu, now, 0)
            self._close(cpu, now.task, now.slice)
        self._open.clear()
        return self._ran

    def lost_on(self, cpu: int) -> int:
        """Return how many events of a CPU were lost."""
        return self._lost[cpu]

    def tasks(self) -> Iterator[int]:
        """Yield the tasks that were seen, without idleness."""
        return (task for task in self.names if task)
