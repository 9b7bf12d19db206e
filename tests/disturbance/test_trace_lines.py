"""Lines of `trace_pipe`, as kernels print them, and as hostile names would have them."""

from __future__ import annotations

import pytest

from sidecar.disturbance.trace_lines import (
    Began,
    Ended,
    Event,
    Forked,
    LostEvents,
    RunnerKind,
    Source,
    SwitchedIn,
    TraceLine,
    read_lines,
)

RECEIVE = Source(RunnerKind.SOFTIRQ, "NET_RX")
TIMER = Source(RunnerKind.VECTOR, "local_timer")

SWITCH = (
    "  <idle>-0       [001] d..2.  4711.000042: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 "
    "prev_state=R ==> next_comm=db worker next_pid=77 next_prio=120"
)

LINES: tuple[tuple[str, Event], ...] = (
    (SWITCH, SwitchedIn(0, 77, "db worker")),
    ("  db-77  [001] d.h1.  4711.000042: local_timer_entry: vector=236", Began(TIMER)),
    ("  db-77  [001] d.h1.  4711.000042: local_timer_exit: vector=236", Ended(RunnerKind.VECTOR)),
    (
        "  db-77  [001] d.h1.  4711.000042: irq_handler_entry: irq=36 name=eth0-rx",
        Began(Source(RunnerKind.INTERRUPT, "36 eth0-rx")),
    ),
    ("  db-77  [001] d.h1.  4711.000042: irq_handler_exit: irq=36 ret=handled", Ended(RunnerKind.INTERRUPT)),
    (
        "  db-77  [001] ..s1.  4711.000042: softirq_entry: vec=3 [action=NET_RX]",
        Began(RECEIVE),
    ),
    ("  db-77  [001] ..s1.  4711.000042: softirq_exit: vec=3 [action=NET_RX]", Ended(RunnerKind.SOFTIRQ)),
    (
        "  db-77  [001] d.h1.  4711.000042: ipi_entry: (Rescheduling interrupts)",
        Began(Source(RunnerKind.VECTOR, "Rescheduling interrupts")),
    ),
    (
        "  db-77  (     77) [001] .....  4711.000042: sched_process_fork: comm=db pid=77 child_comm=db child_pid=78",
        Forked(77, 78),
    ),
)


@pytest.mark.parametrize(("line", "event"), LINES)
def test_a_line_is_an_event(line: str, event: Event) -> None:
    [found] = read_lines(line)
    assert isinstance(found, TraceLine)
    assert (found.at, found.cpu, found.event) == (4_711_000_042, 1, event)


def test_lost_events_are_told() -> None:
    assert list(read_lines("CPU:3 [LOST 17 EVENTS]\n")) == [LostEvents(3, 17)]


@pytest.mark.parametrize(
    "name", ["-1 [000] d..1", "a==> next_comm=", "next_pid=5 x", "prev_pid=9", "[LOST 9 EVENTS]", "x: y: z", "a-7", " "]
)
def test_a_task_cannot_pose_as_another_one_by_its_name(name: str) -> None:
    switch = f"prev_comm={name} prev_pid=5 prev_prio=120 prev_state=S ==> next_comm={name} next_pid=6 next_prio=-2"
    [found] = read_lines(f"  {name}-5  [002] d..2.  1.000001: sched_switch: {switch}")
    assert found == TraceLine(1_000_001, 2, 5, name, SwitchedIn(5, 6, name))


@pytest.mark.parametrize(
    "line", ["", "# tracer: nop", "  db-77  [001] d..1. 1.000001: sched_waking: comm=x pid=1", "\x00"]
)
def test_other_lines_are_passed_over(line: str) -> None:
    assert list(read_lines(line)) == []
