"""The proof of the demo of `dynamic`: it finds each fault, and reports none where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from compose.demo.evidence import LATE_NS, Finding, Line, Span, cpus_of
from compose.demo.takes import Take, away_spans, growths, judge, judge_small, own_spans, strayed, takes
from compose.demo.timeline import kernel_list

S = 1_000_000_000
MS = 1_000_000


def told(at: int, cpus: str, leaving: str = "", *, shared: bool = False, **more: object) -> Line:
    sharing = "shared" if shared else "exclusive"
    desired = kernel_list(cpus_of(cpus) - cpus_of(leaving))
    line = {"kind": "told", "at": at, "cpus": cpus, "leaving": leaving, "desired": desired, "arriving": ""}
    line |= {"original": "1", "sharing": sharing}
    return line | {"settled": True, "deadline": 2.0 if leaving else None, "reason": ""} | more


def started(at: int) -> Line:
    return {"kind": "started", "at": at}


def said(at: int, cpus: str) -> Line:
    return {"kind": "acknowledged", "at": at, "cpus": cpus, "generation": 7}


def ended(at: int) -> Line:
    return {"kind": "ended", "at": at}


def ran(cpu: int, first: int, last: int) -> Line:
    return {"kind": "ran", "at": last, "seen": [[cpu, first, last]]}


BATCH: list[Line] = [
    started(0),
    told(S, "1"),
    told(2 * S, "1-3"),
    ran(3, 2 * S, 3 * S),
    told(3 * S + MS, "1-3", "2-3"),
    said(3 * S + 2 * MS, "2-3"),
    told(3 * S + 9 * MS, "1"),
    told(6 * S, "1-3"),
    ran(2, 6 * S, 7 * S),
    ended(8 * S),
]
DEAF: list[Line] = [
    started(9 * S),
    told(9 * S, "1-3"),
    told(10 * S, "1-3", "3"),
    ran(3, 9 * S, 12 * S),
    told(12 * S, "1-2"),
]
ARRIVAL: list[Line] = [
    started(3 * S),
    told(4 * S, "2-3", original="2-3"),
    ran(2, 4 * S, 5 * S),
    ended(5 * S),
    started(10 * S),
    told(10 * S, "0", shared=True),
    told(12 * S + 20 * MS, "3", original="3"),
    ran(3, 12 * S + 20 * MS, 13 * S),
]
FORCED = {"batch": 0, "deaf": 1, "arrival": 0}


def words(**changed: Sequence[Line]) -> dict[str, Sequence[Line]]:
    return {"batch": BATCH, "deaf": DEAF, "arrival": ARRIVAL} | changed


def found(lines: dict[str, Sequence[Line]], forced: dict[str, int] | None = None) -> list[Finding]:
    return judge(lines, "deaf", FORCED if forced is None else forced, 20 * S)


def test_the_claim_holds_when_everything_is_as_promised() -> None:
    """Announced, vacated, acknowledged, taken; and a deaf one was waited for, and forced."""
    assert [finding for finding in found(words()) if not finding.is_true] == []


def test_a_take_has_what_the_workload_said_of_it() -> None:
    """When it was announced, what was promised, when it acknowledged, when the CPU was gone."""
    assert takes(BATCH) == [Take(frozenset({2, 3}), 3 * S + MS, 2.0, 3 * S + 2 * MS, 3 * S + 9 * MS)]
    [forced] = takes(DEAF)
    assert (forced.said, forced.seconds) == (None, 2.0)


def without(lines: Sequence[Line], is_left_out: Callable[[Line], bool]) -> list[Line]:
    return [line for line in lines if not is_left_out(line)]


@pytest.mark.parametrize(
    ("changed", "said_of_it"),
    [
        ({"batch": without(BATCH, lambda line: line.get("leaving") == "2-3")}, "had been announced"),
        ({"batch": without(BATCH, lambda line: line["kind"] == "acknowledged")}, "acknowledged in time"),
        ({"batch": [*BATCH, ran(3, 3 * S, 3 * S + 3 * MS)]}, "the CPUs it acknowledged"),
        ({"batch": [*BATCH, ran(2, 4 * S, 4 * S + 1)]}, "of another"),
        ({"deaf": [*DEAF, ran(3, 13 * S, 14 * S)]}, "of another"),
        ({"deaf": [*DEAF[:3], told(10 * S + 900 * MS, "1-2")]}, "never acknowledged"),
        ({"deaf": [*DEAF, told(13 * S, "2")]}, "original"),
        ({"batch": BATCH[:7]}, "grew again"),
    ],
    ids=[
        "unannounced",
        "not acknowledged",
        "stayed",
        "came back",
        "did not leave",
        "too early",
        "astray",
        "never grew",
    ],
)
def test_whatever_is_wrong_is_found(changed: dict[str, Sequence[Line]], said_of_it: str) -> None:
    """By its own sentence."""
    if said_of_it == "grew again":
        changed = {**changed, "batch": without(BATCH[:7], lambda line: line["at"] == S)}
    assert any(said_of_it in finding.text for finding in found(words(**changed)) if not finding.is_true)


@pytest.mark.parametrize("forced", [{**FORCED, "batch": 1}, {**FORCED, "deaf": 0}, {**FORCED, "deaf": 2}])
def test_the_sidecar_must_have_counted_the_same(forced: dict[str, int]) -> None:
    """Each time, an acknowledged take is not forced, and another one is."""
    assert not all(finding.is_true for finding in found(words(), forced))


def test_silence_proves_nothing() -> None:
    """Without any output, every claim of an event fails."""
    silent = judge({"batch": [], "deaf": [], "arrival": []}, "deaf", {}, 20 * S)
    failed = [finding.text for finding in silent if not finding.is_true]
    assert [text.split()[0] for text in failed] == ["all", "acknowledged", "deaf", "none", "how"]


def test_a_newborn_is_told_from_one_that_ought_to_know() -> None:
    """At its first instructions it may be where it started, and a restart is a start."""
    born = [started(6 * S), ran(2, 6 * S, 6 * S + LATE_NS // 2)]
    assert all(finding.is_true for finding in found(words(arrival=[*ARRIVAL, *born])))
    assert not all(finding.is_true for finding in found(words(arrival=[*ARRIVAL, *born, ran(2, 7 * S, 7 * S + 1)])))


def test_what_stays_after_all_was_no_take() -> None:
    """A growth cancels; and a CPU that leaves later must be announced again."""
    lines = [told(1, "1-3"), told(2, "1-3", "3"), told(3, "1-3")]
    assert takes(lines) == []
    [again] = takes([*lines, told(4, "1-2")])
    assert again.told is None


def test_what_it_shares_until_its_grant_comes_was_never_its_own() -> None:
    """So losing it is no take. A CPU that goes unannounced is one, although the container still has it."""
    waiting = told(2, "0", desired="1", arriving="1", settled=False)
    assert takes([told(1, "0", shared=True), waiting, told(3, "1")]) == []
    [slip] = takes([told(1, "1-2"), told(2, "1-2", desired="1"), told(3, "1")])
    assert (slip.cpus, slip.told) == (frozenset({2}), None)


def test_a_further_shrink_is_part_of_the_notice() -> None:
    """The last announcement counts for all CPUs that went at once."""
    [both] = takes([told(1, "1-3"), told(2, "1-3", "3"), told(3, "1-3", "2-3"), told(5, "1")])
    assert (both.cpus, both.told) == (frozenset({2, 3}), 3)


def test_its_own_are_the_cpus_that_it_has_to_keep() -> None:
    """Not leaving or shared ones, not before it is settled, and not after its end."""
    assert own_spans(BATCH, 20 * S) == [
        Span(S, 2 * S, frozenset({1})),
        Span(2 * S, 3 * S + MS, frozenset({1, 2, 3})),
        Span(3 * S + MS, 6 * S, frozenset({1})),
        Span(6 * S, 8 * S, frozenset({1, 2, 3})),
    ]
    assert own_spans([told(1, "0", shared=True), told(2, "1", settled=False)], 9) == []


def test_it_is_away_until_the_cpu_is_its_own_again() -> None:
    """Each CPU separately, and at most until the container ends."""
    assert away_spans([*BATCH[:7], told(5 * S, "1-2"), ended(6 * S)], 20 * S) == [
        Span(3 * S + 2 * MS, 5 * S, frozenset({2})),
        Span(3 * S + 2 * MS, 6 * S, frozenset({3})),
    ]


def test_a_cpu_that_has_not_come_yet_has_not_been_lost() -> None:
    """A grant whose originals come one after the other is complete with the last one; then it must stay so."""
    coming = [told(1, "2", original="2-3"), told(2, "2-3", original="2-3")]
    assert not strayed(coming)
    assert strayed([*coming, told(3, "2-3", "3", original="2-3")])
    assert growths(coming) == 1


HOLDER: list[Line] = [started(0), told(S, "1"), ran(1, S, 4 * S), ended(4 * S)]
WAITER: list[Line] = [
    started(2 * S),
    told(2 * S, "0", shared=True, reason="in the shared pool: asked for 1 exclusive CPU, 0 free"),
    ran(0, 2 * S, 5 * S),
    told(5 * S, "1"),
    ran(1, 5 * S, 6 * S),
]


def small(holder: Sequence[Line], waiter: Sequence[Line], forced: int = 0) -> bool:
    lines = {"server": holder, "batch": waiter}
    return all(each.is_true for each in judge_small(lines, "server", "batch", {"server": forced}, 9 * S))


def test_the_small_story_holds_when_the_waiting_one_gets_the_cpu_afterwards() -> None:
    """Its file says that it waits, then it is granted the other's CPU."""
    assert small(HOLDER, WAITER)


def test_the_small_story_fails_when_anything_is_missing() -> None:
    """No word of waiting, too early, never, on the other's CPU, something taken, nothing said."""
    assert not small(HOLDER, [WAITER[0], *WAITER[2:]])
    assert not small(HOLDER, [*WAITER[:3], told(3 * S, "1"), *WAITER[3:]])
    assert not small(HOLDER, WAITER[:3])
    assert not small(HOLDER, [*WAITER, ran(1, 3 * S, 3 * S + 1)])
    assert not small([*HOLDER[:3], told(3 * S, "0", shared=True), *HOLDER[3:]], WAITER)
    assert not small(HOLDER, WAITER, forced=1)
    assert not small([], [])
