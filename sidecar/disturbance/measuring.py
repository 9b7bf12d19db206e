"""Measure what runs on owners' CPUs: by a trace of these CPUs, or by the kernel's counters where it cannot be traced.

The measurement itself stays off these CPUs: it reads the buffers from other ones, a few times a second, and no event
wakes it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sidecar.disturbance.account import ExclusiveCPUs, Tasks, tallied, traced
from sidecar.disturbance.counters import count
from sidecar.disturbance.disturbance_report import Disturbed, Method, Report
from sidecar.disturbance.ledger import Ledger
from sidecar.disturbance.task_places import TaskPlace, place_of, sees_every_task, tasks_of, waited
from sidecar.disturbance.trace_instance import PLACES, NoTracing, TraceInstance, find
from sidecar.disturbance.trace_lines import read_lines
from state.cpuset import CPUSet, union

_PAUSE_SECONDS: Final = 0.1
"""Between two readings: a task that lives longer is surely asked where it belongs."""

_MICRO: Final = 1_000_000

_NANO_PER_MILLI: Final = 1_000_000

Progress = Callable[[float], None]
"""Told, after each reading, how many seconds are left."""

Departures = Callable[[], Mapping[str, str]]
"""Tells which owners, by id, are measured no longer, and why: they ended, or have other CPUs."""


def measure(
    owners: Sequence[ExclusiveCPUs],
    names: Mapping[str, str],
    seconds: float,
    *,
    tracefs: Sequence[str] = PLACES,
    progress: Progress = lambda _: None,
    departures: Departures = dict,
) -> Report:
    """Return what disturbed these owners in the next seconds. `names` are those of containers by id. An owner that
    departs meanwhile is measured until then, and a note says so; without any owner left the measurement ends.
    """
    try:
        return trace(owners, names, seconds, tracefs=tracefs, progress=progress, departures=departures)
    except NoTracing as why:
        with _elsewhere(union(owner.cpus for owner in owners)) as note:
            less = f"only counters, without the names and times of processes: {why}"
            return _counted(owners, seconds, (less, *([note] if note else [])), progress, departures)


def trace(
    owners: Sequence[ExclusiveCPUs],
    names: Mapping[str, str],
    seconds: float,
    *,
    tracefs: Sequence[str] = PLACES,
    progress: Progress = lambda _: None,
    departures: Departures = dict,
) -> Report:
    """Return the same by the kernel's trace. NoTracing where that cannot be. What `progress` raises ends it early."""
    if not sees_every_task():
        raise NoTracing("the host's processes are not visible here: run it on the host, or with pid: host")
    cpus = union(owner.cpus for owner in owners)
    with _elsewhere(cpus) as note:
        return _traced(owners, cpus, names, seconds, find(tracefs), (note,) if note else (), progress, departures)


@contextlib.contextmanager
def _elsewhere(cpus: CPUSet) -> Iterator[str]:
    """Keep this process off these CPUs meanwhile; what is yielded says where that cannot be."""
    before = os.sched_getaffinity(0)
    others = before - set(cpus)
    if not others:
        yield "the measurement ran on these CPUs itself: it may run on no others"
        return
    os.sched_setaffinity(0, others)
    try:
        yield ""
    finally:
        os.sched_setaffinity(0, before)


def _traced(
    owners: Sequence[ExclusiveCPUs],
    cpus: CPUSet,
    names: Mapping[str, str],
    seconds: float,
    place: str,
    notes: tuple[str, ...],
    progress: Progress,
    departures: Departures,
) -> Report:
    known = dict(tasks_of({owner.id for owner in owners}))
    places: dict[int, TaskPlace | None] = dict(known)
    before, waited_before = count(), waited(known)
    with TraceInstance(cpus, place) as trace:
        begin = time.monotonic()
        ledger = Ledger(int(begin * _MICRO), int((begin + seconds) * _MICRO))

        def told(owner: ExclusiveCPUs, until: float | None = None) -> Disturbed:
            ran = ledger.closed() if until is None else ledger.so_far(int((begin + until) * _MICRO))
            return traced(
                owner,
                ran,
                Tasks(ledger.names, places, ledger.parents),
                names,
                seconds=seconds if until is None else until,
                waited_ms=_waited(owner, places, waited_before),
                counted=count().since(before),
                lost=sum(ledger.lost_on(cpu) for cpu in owner.cpus),
            )

        departed = _Departed(owners, departures, begin, told)
        for left in _pauses(begin, seconds):
            _read(trace, cpus, ledger, places)
            if departed.are_all():
                break
            progress(left)
        trace.stop()
        _read(trace, cpus, ledger, places)
    return departed.report(Method.TRACE, seconds, notes)


class _Departed:
    """The owners that departed, each with what `told` tells of it until then."""

    def __init__(
        self,
        owners: Sequence[ExclusiveCPUs],
        departures: Departures,
        begin: float,
        told: Callable[[ExclusiveCPUs, float | None], Disturbed],
    ) -> None:
        self._owners = owners
        self._departures = departures
        self._begin = begin
        self._told = told
        self._found: dict[str, tuple[Disturbed, str]] = {}

    def are_all(self) -> bool:
        """Note which owners departed since. Return whether none is left."""
        now = self._departures()
        for owner in self._owners:
            if owner.id in now and owner.id not in self._found:
                elapsed = time.monotonic() - self._begin
                told = msgspec.structs.replace(self._told(owner, elapsed), seconds=elapsed)
                self._found[owner.id] = told, f"{owner.name} {now[owner.id]}: it was measured for {elapsed:.1f} s"
        return len(self._found) == len(self._owners)

    def report(self, method: Method, seconds: float, notes: tuple[str, ...]) -> Report:
        """Return the report on all owners."""
        found = self._found
        containers = tuple(found[each.id][0] if each.id in found else self._told(each, None) for each in self._owners)
        return Report(
            method=method,
            seconds=max(each.seconds or seconds for each in containers),
            containers=containers,
            notes=(*notes, *(note for _, note in found.values())),
        )


def _read(trace: TraceInstance, cpus: CPUSet, ledger: Ledger, places: dict[int, TaskPlace | None]) -> None:
    for cpu in cpus:
        for line in read_lines(trace.read(cpu)):
            ledger.take(line)
    for task in ledger.tasks():
        if task not in places:
            places[task] = place_of(task)


def _counted(
    owners: Sequence[ExclusiveCPUs],
    seconds: float,
    notes: tuple[str, ...],
    progress: Progress,
    departures: Departures,
) -> Report:
    known = dict(tasks_of({owner.id for owner in owners}))
    before, waited_before = count(), waited(known)
    begin = time.monotonic()

    def told(owner: ExclusiveCPUs, _: float | None = None) -> Disturbed:
        return tallied(owner, count().since(before), waited_ms=_waited(owner, known, waited_before))

    departed = _Departed(owners, departures, begin, told)
    for left in _pauses(begin, seconds):
        if departed.are_all():
            break
        progress(left)
    return departed.report(Method.COUNTERS, time.monotonic() - begin, notes)


def _pauses(begin: float, seconds: float) -> Iterator[float]:
    """Yield after each pause how many seconds are left, until none is."""
    while (left := begin + seconds - time.monotonic()) > 0:
        time.sleep(min(_PAUSE_SECONDS, left))
        yield max(0.0, begin + seconds - time.monotonic())


def _waited(owner: ExclusiveCPUs, places: Mapping[int, TaskPlace | None], before: Mapping[int, int]) -> float | None:
    """Return for how many milliseconds the owner's tasks have waited since; None if the kernel does not tell."""
    mine = [task for task, place in places.items() if place and place.is_of(owner.id)]
    now = waited(mine)
    # One that is new has waited since its beginning.
    return sum(now[task] - before.get(task, 0) for task in now) / _NANO_PER_MILLI if now else None
