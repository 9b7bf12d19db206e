"""The demo's proof: it finds each fault, and reports none where there is none."""

from __future__ import annotations

from compose.demo.evidence import (
    LATE_NS,
    Intrusion,
    Line,
    Span,
    cpus_of,
    figures,
    intrusions,
    judge,
    settled_spans,
    whole_seconds,
)

MS = 1_000_000


def told(at: int, cpus: str, *, settled: bool, sharing: str = "exclusive") -> Line:
    return {"kind": "told", "at": at, "cpus": cpus, "settled": settled, "sharing": sharing}


def ran(cpu: int, first: int, last: int) -> Line:
    return {"kind": "ran", "at": last, "process": 0, "seen": {str(cpu): [first, last]}}


def test_a_list_of_cpus_is_read_as_the_kernel_writes_it() -> None:
    """Single numbers, ranges, and the empty list."""
    assert cpus_of("0-2,5") == {0, 1, 2, 5}
    assert cpus_of("") == set()


def test_settled_spans_begin_when_it_is_said_and_end_when_it_is_unsaid() -> None:
    """Also when the CPUs change without an unsettled report between, and at the end of the demo."""
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
    """Up to the moment of settling every container may run anywhere."""
    span = Span(100, 200, frozenset({1}))
    assert intrusions([{"kind": "started", "at": 0}, ran(1, 50, 99), ran(0, 100, 300), ran(1, 200, 300)], [span]) == []


def test_a_newborn_neighbour_is_told_from_one_that_ought_to_know() -> None:
    """It may be there at its first instructions, and a restart is a birth."""
    span = Span(0, 10**12, frozenset({1}))
    lines = [{"kind": "started", "at": 0}, ran(0, 1, LATE_NS), {"kind": "started", "at": LATE_NS}]
    [found] = intrusions([*lines, ran(1, LATE_NS + 1, LATE_NS + 10 * MS)], [span])
    assert found.is_late_start


def test_only_seconds_that_are_wholly_settled_count() -> None:
    """A second that began before proves nothing about the time after."""
    work = {"allowed": "1", "share": 1.0, "stalls": 0, "longest_ms": 0.2, "waited_ms": 0.0, "preempted": 2}
    lines = [{"kind": "worked", "began": began, "at": began + 10, **work} for began in (0, 10, 20, 30)]
    chosen = whole_seconds(lines, [Span(5, 35, frozenset({1}))])
    assert [line["began"] for line in chosen] == [10, 20]
    found = figures(chosen)
    assert found is not None
    assert (found.allowed, found.seconds, found.share, found.preempted) == (("1",), 2, 1.0, 2)


WORK: Line = {"share": 0.9, "stalls": 0, "longest_ms": 0.2, "waited_ms": 0.0, "preempted": 2}
S = 1_000_000_000
EXCLUSIVE: list[Line] = [
    told(2 * S, "1", settled=True),
    {"kind": "worked", "began": 3 * S, "at": 4 * S, "allowed": "1", **WORK},
]
PLAIN: list[Line] = [{"kind": "worked", "began": 3 * S, "at": 4 * S, "allowed": "0", **WORK, "share": 0.3}]
NOISY: list[Line] = [{"kind": "started", "at": 0}, ran(1, 0, S), ran(0, 3 * S, 4 * S)]


def test_the_claim_holds_when_everything_is_as_promised() -> None:
    """A neighbour that was there before and left, and a workload that had its CPU to itself."""
    verdict = judge(EXCLUSIVE, PLAIN, {"a": NOISY}, [(S, 1), (3 * S, 0)], 5 * S)
    assert verdict.is_true
    assert verdict.settled_seconds == 3
    assert verdict.late_ms == 0


def test_one_note_on_the_settled_cpu_refutes_the_claim() -> None:
    """Whichever container wrote it."""
    intruder = [{"kind": "started", "at": 0}, ran(1, 3 * S, 3 * S + 1)]
    assert not judge(EXCLUSIVE, PLAIN, {"a": NOISY, "b": intruder}, [], 5 * S).is_true


def test_one_sample_from_outside_refutes_the_claim() -> None:
    """Even if the neighbours record nothing; but not in the first moment after a start."""
    assert not judge(EXCLUSIVE, PLAIN, {"a": NOISY}, [(3 * S, 1)], 5 * S).is_true
    born = [{"kind": "started", "at": 3 * S - MS}, ran(0, 3 * S, 4 * S)]
    assert judge(EXCLUSIVE, PLAIN, {"a": NOISY, "b": born}, [(3 * S, 1)], 5 * S).is_true


def test_silence_proves_nothing() -> None:
    """Neither the silence of the exclusive workload nor of the noisy ones."""
    assert not judge([], PLAIN, {"a": NOISY}, [], 5 * S).is_true
    assert not judge(EXCLUSIVE, PLAIN, {"a": []}, [], 5 * S).is_true


def test_a_workload_that_may_run_elsewhere_is_not_exclusive() -> None:
    """Its own /proc/self/status decides."""
    wide = [EXCLUSIVE[0], EXCLUSIVE[1] | {"allowed": "0-1"}]
    assert not judge(wide, PLAIN, {"a": NOISY}, [], 5 * S).is_true


def test_a_workload_that_fares_no_better_was_not_alone() -> None:
    """The counters must show what the CPU lists promise."""
    assert not judge(EXCLUSIVE, [PLAIN[0] | {"share": 0.95}], {"a": NOISY}, [], 5 * S).is_true
