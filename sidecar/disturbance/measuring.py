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

from sidecar.disturbance.account import ExclusiveCPUs, Tasks, tallied, traced
from sidecar.disturbance.counters import Counted, count
from sidecar.disturbance.disturbance_report import Method, Report
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


def measure(
    owners: Sequence[ExclusiveCPUs],
    names: Mapping[str, str],
    seconds: float,
    *,
    tracefs: Sequence[str] = PLACES,
    progress: Progress = lambda _: None,
) -> Report:
    """Return what disturbed these owners in the next seconds. `names` are those of containers by id."""
    try:
        return trace(owners, names, seconds, tracefs=tracefs, progress=progress)
    except NoTracing as why:
        with _elsewhere(union(owner.cpus for owner in owners)) as note:
            less = f"only counters, without the names and times of processes: {why}"
            return _counted(owners, seconds, (less, *([note] if note else [])), progress)


def trace(
    owners: Sequence[ExclusiveCPUs],
    names: Mapping[str, str],
    seconds: float,
    *,
    tracefs: Sequence[str] = PLACES,
    progress: Progress = lambda _: None,
) -> Report:
    """Return the same by the kernel's trace. NoTracing where that cannot be. What `progress` raises ends it early."""
    if not sees_every_task():
        raise NoTracing("the host's processes are not visible here: run it on the host, or with pid: host")
    cpus = union(owner.cpus for owner in owners)
    with _elsewhere(cpus) as note:
        return _traced(owners, cpus, names, seconds, find(tracefs), (note,) if note else (), progress)


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
) -> Report:
    known = dict(tasks_of({owner.id for owner in owners}))
    places: dict[int, TaskPlace | None] = dict(known)
    before, waited_before = count(), waited(known)
    with TraceInstance(cpus, place) as trace:
        begin = time.monotonic()
        ledger = Ledger(int(begin * _MICRO), int((begin + seconds) * _MICRO))
        for left in _pauses(begin, seconds):
            _read(trace, cpus, ledger, places)
            progress(left)
        trace.stop()
        _read(trace, cpus, ledger, places)
    ran = ledger.closed()
    counted = count().since(before)
    tasks = Tasks(ledger.names, places, ledger.parents)
    return Report(
        method=Method.TRACE,
        seconds=seconds,
        containers=tuple(
            traced(
                owner,
                ran,
                tasks,
                names,
                seconds=seconds,
                waited_ms=_waited(owner, places, waited_before),
                counted=counted,
                lost=sum(ledger.lost_on(cpu) for cpu in owner.cpus),
            )
            for owner in owners
        ),
        notes=notes,
    )


def _read(trace: TraceInstance, cpus: CPUSet, ledger: Ledger, places: dict[int, TaskPlace | None]) -> None:
    for cpu in cpus:
        for line in read_lines(trace.read(cpu)):
            ledger.take(line)
    for task in ledger.tasks():
        if task not in places:
            places[task] = place_of(task)


def _counted(owners: Sequence[ExclusiveCPUs], seconds: float, notes: tuple[str, ...], progress: Progress) -> Report:
    known = dict(tasks_of({owner.id for owner in owners}))
    before, waited_before = count(), waited(known)
    begin = time.monotonic()
    for left in _pauses(begin, seconds):
        progress(left)
    counted: Counted = count().since(before)
    return Report(
        method=Method.COUNTERS,
        seconds=time.monotonic() - begin,
        containers=tuple(tallied(owner, counted, waited_ms=_waited(owner, known, waited_before)) for owner in owners),
        notes=notes,
    )


def _pauses(begin: float, seconds: float) -> Iterator[float]:
    """Yield after each pause how many seconds are left, until none is."""
    while (left := begin + seconds - time.monotonic()) > 0:
        time.sleep(min(_PAUSE_SECONDS, left))
        yield max(0.0, begin + seconds - time.monotonic())


def _waited(owner: ExclusiveCPUs, places: Mapping[int, TaskPlace | None], before: Mapping[int, int]) -> float | None:
    """Return for how many milliseconds the owner's tasks have waited since; None if the kernel does not tell."""
    mine = [task for task, place in places.items() if place and place.container == owner.id]
    now = waited(mine)
    # One that is new has waited since its beginning.
    return sum(now[task] - before.get(task, 0) for task in now) / _NANO_PER_MILLI if now else None
