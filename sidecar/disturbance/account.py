"""The report on each owner from what was measured: its own tasks left out, the rest by name. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from sidecar.disturbance.counters import Counted
from sidecar.disturbance.disturbance_report import Disturbed, Disturber
from sidecar.disturbance.ledger import Ran, Runner
from sidecar.disturbance.task_places import TaskPlace, label
from sidecar.disturbance.trace_lines import RunnerKind, Source
from state.cpuset import CPUSet

_MICRO: Final = 1000.0
"""Microseconds of a millisecond."""

GONE: Final = "ended before it was seen"


class ExclusiveCPUs(NamedTuple):
    """A container, and the CPUs that it is granted."""

    id: str
    name: str
    cpus: CPUSet


class Tasks(NamedTuple):
    """What is known of tasks: the last name, where it was (None: it ended unseen), and the task that made it."""

    names: Mapping[int, str]
    places: Mapping[int, TaskPlace | None]
    parents: Mapping[int, int]

    def place(self, task: int) -> TaskPlace | None:
        """Return where a task was; of one that ended unseen, where the one was that made it. None: neither was seen."""
        passed = set[int]()
        while task not in passed:
            passed.add(task)
            if place := self.places.get(task):
                return place
            task = self.parents.get(task, task)
        return None


class _Who(NamedTuple):
    kind: RunnerKind
    name: str
    of: str
    is_bound: bool


def traced(
    owner: ExclusiveCPUs,
    ran: Mapping[tuple[int, Runner], Ran],
    tasks: Tasks,
    names: Mapping[str, str],
    *,
    seconds: float,
    waited_ms: float | None,
    counted: Counted,
    lost: int,
) -> Disturbed:
    """Return the report on an owner of what was traced. `names` are those of containers by id."""
    found: defaultdict[_Who, Ran] = defaultdict(Ran)
    where: defaultdict[_Who, set[int]] = defaultdict(set)
    for (cpu, runner), each in ran.items():
        if cpu in owner.cpus and each.times and (who := _who(owner, runner, tasks, names)):
            found[who] += each
            where[who].add(cpu)
    by = [
        Disturber(
            kind=who.kind,
            name=who.name,
            of=who.of,
            is_bound=who.is_bound,
            count=each.times,
            total_ms=each.total / _MICRO,
            longest_ms=each.longest / _MICRO,
            cpus=CPUSet.of(*where[who]),
        )
        for who, each in found.items()
    ]
    by.sort(key=lambda each: (-(each.total_ms or 0), each.kind, each.name, each.of))
    foreign = sum(each.total_ms or 0 for each in by)
    return Disturbed(
        id=owner.id,
        name=owner.name,
        cpus=owner.cpus,
        foreign_ms=foreign,
        share=foreign / (1000 * seconds * len(owner.cpus)) if owner.cpus and seconds else None,
        waited_ms=waited_ms,
        stolen_ms=_stolen(owner, counted),
        lost=lost,
        by=tuple(by),
    )


def tallied(owner: ExclusiveCPUs, counted: Counted, *, waited_ms: float | None) -> Disturbed:
    """Return the report on an owner of what the kernel's counters tell: how often, and not for how long."""
    found: defaultdict[Source, int] = defaultdict(int)
    where: defaultdict[Source, set[int]] = defaultdict(set)
    for (cpu, source), count in counted.interrupts.items():
        if cpu in owner.cpus:
            found[source] += count
            where[source].add(cpu)
    by = [
        Disturber(kind=source.kind, name=source.name, count=count, cpus=CPUSet.of(*where[source]))
        for source, count in found.items()
    ]
    by.sort(key=lambda each: (-each.count, each.kind, each.name))
    return Disturbed(
        id=owner.id,
        name=owner.name,
        cpus=owner.cpus,
        foreign_ms=None,
        share=None,
        waited_ms=waited_ms,
        stolen_ms=_stolen(owner, counted),
        lost=0,
        by=tuple(by),
    )


def _stolen(owner: ExclusiveCPUs, counted: Counted) -> float:
    return sum(counted.stolen.get(cpu, 0.0) for cpu in owner.cpus)


def _who(owner: ExclusiveCPUs, runner: Runner, tasks: Tasks, names: Mapping[str, str]) -> _Who | None:
    """Return what that is; None for idleness and the owner itself."""
    if isinstance(runner, Source):
        return _Who(runner.kind, runner.name, "", is_bound=False)
    place = tasks.place(runner)
    if runner == 0 or (place and place.is_of(owner.id)):
        return None
    kind = RunnerKind.KERNEL_THREAD if place and place.is_kernel else RunnerKind.PROCESS
    of = label(place, names) if place else GONE
    return _Who(kind, tasks.names.get(runner, ""), of, is_bound=bool(place and place.is_bound))
