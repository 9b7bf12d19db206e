"""Lines of the kernel's trace buffer as events: what was switched in, and which interrupts began and ended. Pure.

The format is that of `trace_pipe` (Documentation/trace/ftrace.rst): task and process id, CPU, flags, time in seconds,
the event's name and its fields. A task chooses its own name, of at most 15 bytes, so it is never looked for by what is
in front of it: the numbers that follow it decide where it ends.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import Final, NamedTuple


class RunnerKind(enum.StrEnum):
    """What ran on a CPU."""

    PROCESS = "process"
    KERNEL_THREAD = "kernel thread"
    INTERRUPT = "interrupt"
    SOFTIRQ = "softirq"
    VECTOR = "vector"
    """An interrupt that no device sends: of the CPU's own timer, or of another CPU."""


class Source(NamedTuple):
    """Something that interrupts a task: its kind and the kernel's name, of an interrupt with its number."""

    kind: RunnerKind
    name: str


class SwitchedIn(NamedTuple):
    """A task was switched in for another one; 0 is the idle task of each CPU."""

    before: int
    after: int
    after_name: str


class Began(NamedTuple):
    """An interrupt handler began."""

    source: Source


class Ended(NamedTuple):
    """The innermost handler of this kind ended."""

    kind: RunnerKind


class Forked(NamedTuple):
    """A task made another one."""

    parent: int
    child: int


class TaskUsed(NamedTuple):
    """A task used its CPU for so many nanoseconds since this was last told of it."""

    task: int
    nanoseconds: int


Event = SwitchedIn | Began | Ended | Forked | TaskUsed


class TraceLine(NamedTuple):
    """One event on a CPU, `at` in microseconds of the trace clock, during which `task` was switched in."""

    at: int
    cpu: int
    task: int
    task_name: str
    event: Event


class LostEvents(NamedTuple):
    """Events of a CPU that the buffer had no room for."""

    cpu: int
    events: int


_LINE: Final = re.compile(r"\s*(.+)-(\d+)\s+(?:\([ \d-]+\)\s+)?\[(\d+)\]\s+(?:\S+\s+)?(\d+)\.(\d{6}): (\w+): (.*)")
_LOST: Final = re.compile(r"CPU:(\d+) \[LOST (\d+) EVENTS\]")

_SWITCH: Final = re.compile(
    r"prev_comm=.* prev_pid=(\d+) prev_prio=-?\d+ prev_state=\S+ ==> next_comm=(.*) next_pid=(\d+) next_prio=-?\d+"
)
_USED: Final = re.compile(r"comm=.* pid=(\d+) runtime=(\d+) \[ns\].*")
_FORK: Final = re.compile(r"comm=.* pid=(\d+) child_comm=.* child_pid=(\d+)")
_IRQ: Final = re.compile(r"irq=(\d+) name=(.*)")
_SOFTIRQ: Final = re.compile(r"vec=(\d+) \[action=(\w+)\]")
_IPI: Final = re.compile(r"\((.*)\)")

_ENTRY, _EXIT = "_entry", "_exit"

VECTORS: Final = (
    *("local_timer", "reschedule", "call_function", "call_function_single", "irq_work", "thermal_apic"),
    *("x86_platform_ipi", "error_apic", "spurious_apic", "threshold_apic", "deferred_error_apic"),
)
"""Events of `irq_vectors`, by which x86 tells of them, without `_entry` and `_exit`."""


def read_lines(text: str) -> Iterator[TraceLine | LostEvents]:
    """Yield what these lines tell; those of other events, and those that cannot be read, are passed over."""
    for line in text.splitlines():
        if found := _LINE.fullmatch(line):
            name, task, cpu, seconds, micros, event, fields = found.groups()
            if (told := _event(event, fields)) is not None:
                yield TraceLine(int(seconds) * 1_000_000 + int(micros), int(cpu), int(task), name, told)
        elif lost := _LOST.fullmatch(line.strip()):
            yield LostEvents(int(lost[1]), int(lost[2]))


def _event(name: str, fields: str) -> Event | None:
    if name == "sched_switch":
        found = _SWITCH.fullmatch(fields)
        return SwitchedIn(int(found[1]), int(found[3]), found[2]) if found else None
    if name == "sched_process_fork":
        found = _FORK.fullmatch(fields)
        return Forked(int(found[1]), int(found[2])) if found else None
    if name == "sched_stat_runtime":
        found = _USED.fullmatch(fields)
        return TaskUsed(int(found[1]), int(found[2])) if found else None
    kind = _kind(name)
    if kind is None:
        return None
    if name.endswith(_EXIT):
        return Ended(kind)
    return Began(Source(kind, _source(kind, name, fields)))


def _kind(name: str) -> RunnerKind | None:
    if name in ("irq_handler_entry", "irq_handler_exit"):
        return RunnerKind.INTERRUPT
    if name in ("softirq_entry", "softirq_exit"):
        return RunnerKind.SOFTIRQ
    is_vector = name in ("ipi_entry", "ipi_exit") or name.removesuffix(_ENTRY).removesuffix(_EXIT) in VECTORS
    return RunnerKind.VECTOR if is_vector else None


def _source(kind: RunnerKind, name: str, fields: str) -> str:
    if kind is RunnerKind.INTERRUPT:
        found = _IRQ.fullmatch(fields)
        return f"{found[1]} {found[2]}" if found else fields
    if kind is RunnerKind.SOFTIRQ:
        found = _SOFTIRQ.fullmatch(fields)
        return found[2] if found else fields
    found = _IPI.fullmatch(fields)
    return found[1] if found else name.removesuffix(_ENTRY)
