"""The demo's proof: it finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

from compose.demo.evidence import (
    LATE_NS,
    Intrusion,
    Line,
    Span,
    cpus_of,
    figures,
    intrusions,
    settled_spans,
    whole_seconds,
)
from compose.demo.witness import last_cpu

MS = 1_000_000


def told(at: int, cpus: str, *, settled: bool, sharing: str = "exclusive") -> Line:
    return {"kind": "told", "at": at, "cpus": cpus, "settled": settled, "sharing": sharing}


def ran(cpu: int, first: int, last: int) -> Line:
    return {"kind": "ran", "at": last, "process": 0, "seen": {str(cpu): [first, last]}}


def test_a_list_of_cpus_is_read_as_the_kernel_writes_it() -> None:
    """Single numbers, ranges, and nothing."""
    assert cpus_of("0-2,5") == {0, 1, 2, 5}
    assert cpus_of("") == set()


def test_settled_spans_begin_when_it_is_said_and_end_when_it_is_unsaid() -> None:
    """Also when the CPUs change without an unsettled word between, and at the end of the demo."""
    lines = [
        told(10, "1", settled=False),
        told(20, "1", settled=True),
        told(30, "1", settled=False),
        told(40, "1", settled=True),
        told(50, "2", settled=True),
    ]
    assert settled_spans(lines, 60) == [
        Span(20, 30, frozenset({1})),
        Span(40, 50, frozenset({1})),
        Span(50, 60, frozenset({2})),
    ]


def test_the_shared_pool_is_no_grant() -> None:
    """A container that is settled in the shared pool is not alone there."""
    assert settled_spans([told(10, "0-1", settled=True, sharing="shared")], 20) == []


def test_a_neighbour_on_a_settled_cpu_is_found() -> None:
    """One that ought to have known: its container is older than LATE_NS."""
    [found] = intrusions(
        [{"kind": "started", "at": 0}, ran(1, LATE_NS, LATE_NS + 9)], [Span(0, 10**12, frozenset({1}))]
    )
    assert not found.is_late_start
    assert found == Intrusion(cpu=1, length_ns=9, ended_after_birth_ns=LATE_NS + 9)


def test_a_neighbour_that_was_there_before_is_no_intruder() -> None:
    """Up to the moment of settling everybody may run anywhere."""
    span = Span(100, 200, frozenset({1}))
    assert intrusions([{"kind": "started", "at": 0}, ran(1, 50, 99), ran(0, 100, 300), ran(1, 200, 300)], [span]) == []


def test_a_newborn_neighbour_is_told_from_one_that_ought_to_know() -> None:
    """It may be there at its first instructions, and a restart is a birth."""
    span = Span(0, 10**12, frozenset({1}))
    lines = [{"kind": "started", "at": 0}, ran(0, 1, LATE_NS), {"kind": "started", "at": LATE_NS}]
    [found] = intrusions([*lines, ran(1, LATE_NS + 1, LATE_NS + 10 * MS)], [span])
    assert found.is_late_start


def test_only_seconds_that_are_wholly_settled_count() -> None:
    """A second that began before says nothing about the time after."""
    work = {"allowed": "1", "share": 1.0, "stalls": 0, "longest_ms": 0.2, "waited_ms": 0.0, "preempted": 2}
    lines = [{"kind": "worked", "began": began, "at": began + 10, **work} for began in (0, 10, 20, 30)]
    chosen = whole_seconds(lines, [Span(5, 35, frozenset({1}))])
    assert [line["began"] for line in chosen] == [10, 20]
    found = figures(chosen)
    assert found is not None
    assert (found.allowed, found.seconds, found.share, found.preempted) == (("1",), 2, 1.0, 2)


def test_the_witness_reads_where_a_running_thread_is_and_ignores_a_sleeping_one() -> None:
    """Field 39 of /proc/PID/stat, behind a program name that may hold anything."""
    fields = " ".join(str(number) for number in range(4, 53))
    assert last_cpu(f"7 (a) R b) R {fields}") == 39
    assert last_cpu(f"7 (python) S {fields}") is None
