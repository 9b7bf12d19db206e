"""Each switch is told once, with all that it silences, the most first."""

from __future__ import annotations

from sidecar.disturbance.disturbance_report import Disturbed, Disturber, Method, Report
from sidecar.disturbance.remedies import quiet_report, remedies
from sidecar.disturbance.switch_positions import Positions
from sidecar.disturbance.trace_lines import RunnerKind
from state.cpuset import EMPTY, CPUSet

CPU = CPUSet.of(1)
NOW = Positions(others=CPUSet.of(0), nohz_full=EMPTY, timer_migration=True)


def one(kind: RunnerKind, name: str, total: float | None, of: str = "") -> Disturber:
    return Disturber(kind=kind, name=name, of=of, count=3, total_ms=total, cpus=CPU)


def disturbed(*by: Disturber, stolen: float = 0.0) -> Disturbed:
    return Disturbed(
        id="d" * 64,
        name="db",
        cpus=CPU,
        foreign_ms=None,
        share=None,
        waited_ms=None,
        stolen_ms=stolen,
        lost=0,
        by=by,
    )


TICK = one(RunnerKind.VECTOR, "local_timer", 5.0)
TIMERS = one(RunnerKind.SOFTIRQ, "TIMER", 2.0)
SHELL = one(RunnerKind.PROCESS, "sh", 6.0, "/build")


def test_a_switch_that_silences_several_is_told_once_with_their_sum() -> None:
    found = remedies(disturbed(TICK, TIMERS, SHELL), NOW)
    assert [(each.silences, each.total_ms, each.count, each.needs_reboot) for each in found] == [
        (("vector local_timer", "softirq TIMER"), 7.0, 6, True),
        (("process sh (/build)",), 6.0, 3, False),
        (("softirq TIMER",), 2.0, 3, False),
    ]


def test_what_a_hypervisor_took_is_told_without_a_switch() -> None:
    [found] = remedies(disturbed(stolen=30.0), NOW)
    assert (found.silences, found.total_ms, found.command) == (("a hypervisor",), 30.0, "")


def test_counters_know_no_times_and_the_most_frequent_comes_first() -> None:
    rare = Disturber(kind=RunnerKind.VECTOR, name="Local timer interrupts", count=1, cpus=CPU)
    often = Disturber(kind=RunnerKind.SOFTIRQ, name="RCU", count=9, cpus=CPU)
    found = remedies(disturbed(rare, often), NOW)
    assert [(each.silences, each.total_ms, each.count) for each in found] == [
        (("softirq RCU",), None, 9),
        (("vector Local timer interrupts",), None, 1),
    ]


def test_nothing_disturbed_needs_no_remedy() -> None:
    report = Report(method=Method.TRACE, seconds=1.0, containers=(disturbed(),), notes=("a note",))
    found = quiet_report(report, NOW)
    assert (found.remedies, found.notes, found.container.name) == ((), ("a note",), "db")
