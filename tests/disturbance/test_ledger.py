"""Each microsecond of a CPU belongs to one thing."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from sidecar.disturbance.ledger import Ledger, Ran
from sidecar.disturbance.trace_lines import (
    Began,
    Ended,
    Event,
    LostEvents,
    RunnerKind,
    Source,
    SwitchedIn,
    TaskUsed,
    TraceLine,
)

DISK = Source(RunnerKind.INTERRUPT, "36 disk")
BLOCK = Source(RunnerKind.SOFTIRQ, "BLOCK")

TASKS = st.integers(0, 4)
"""What a line says is running: often not what was told to be switched in."""

EVENTS = st.one_of(
    TASKS.map(lambda task: SwitchedIn(-1, task, f"task {task}")),
    st.builds(TaskUsed, TASKS, st.integers(0, 60_000)),
    st.sampled_from([Began(DISK), Began(BLOCK), Ended(RunnerKind.INTERRUPT), Ended(RunnerKind.SOFTIRQ)]),
)


def account(*told: tuple[int, Event | LostEvents], end: int) -> dict[object, Ran]:
    """Return what ran on CPU 1 from 0 on, where task 7 ran at first, and each line says rightly what runs."""
    ledger, task = Ledger(0, end), 7
    for at, event in told:
        ledger.take(event if isinstance(event, LostEvents) else TraceLine(at, 1, task, "owner", event))
        task = event.after if isinstance(event, SwitchedIn) else task
    return {runner: ran for (_, runner), ran in ledger.closed().items()}


def test_a_task_runs_from_one_switch_to_the_next() -> None:
    found = account((100, SwitchedIn(7, 8, "other")), (130, SwitchedIn(8, 7, "owner")), end=200)
    assert found == {7: Ran(2, 170, 100), 8: Ran(1, 30, 30)}


def test_an_account_until_a_moment_leaves_the_other_as_it_was() -> None:
    """What is still running then has run until then."""
    ledger = Ledger(0, 200)
    ledger.take(TraceLine(100, 1, 7, "owner", SwitchedIn(7, 8, "other")))
    assert {runner: ran for (_, runner), ran in ledger.so_far(120).items()} == {7: Ran(1, 100, 100), 8: Ran(1, 20, 20)}
    ledger.take(TraceLine(130, 1, 8, "other", SwitchedIn(8, 7, "owner")))
    assert {runner: ran for (_, runner), ran in ledger.closed().items()} == {7: Ran(2, 170, 100), 8: Ran(1, 30, 30)}


def test_what_interrupts_a_task_is_not_its_time() -> None:
    """A softirq begins, and an interrupt comes in the midst of it."""
    told = (
        *((10, SwitchedIn(7, 8, "other")), (20, Began(BLOCK)), (25, Began(DISK)), (28, Ended(RunnerKind.INTERRUPT))),
        *((40, Ended(RunnerKind.SOFTIRQ)), (50, SwitchedIn(8, 7, "owner"))),
    )
    assert account(*told, end=60) == {7: Ran(2, 20, 10), 8: Ran(1, 20, 20), BLOCK: Ran(1, 17, 17), DISK: Ran(1, 3, 3)}


def test_what_ran_when_events_were_lost_is_not_guessed() -> None:
    found = account((10, SwitchedIn(7, 8, "other")), (0, LostEvents(1, 5)), (90, SwitchedIn(7, 9, "third")), end=100)
    assert found == {7: Ran(1, 10, 10), 8: Ran(1, 0, 0), 9: Ran(1, 10, 10)}


def test_a_switch_from_idleness_that_is_not_told_is_inferred() -> None:
    """By the time that the task says it has used: it ran from 70 on."""
    ledger = Ledger(0, 200)
    for at, task, event in (
        (10, 7, SwitchedIn(7, 0, "swapper/1")),
        (60, 0, Began(DISK)),
        (65, 0, Ended(RunnerKind.INTERRUPT)),
        (100, 8, TaskUsed(8, 30_000)),
        (100, 8, SwitchedIn(8, 0, "swapper/1")),
    ):
        ledger.take(TraceLine(at, 1, task, "task", event))
    found = {runner: ran for (_, runner), ran in ledger.closed().items()}
    assert found == {7: Ran(1, 10, 10), 0: Ran(2, 155, 100), 8: Ran(1, 30, 30), DISK: Ran(1, 5, 5)}


def test_what_came_after_the_end_does_not_count() -> None:
    assert account((10, SwitchedIn(7, 8, "other")), (50, SwitchedIn(8, 7, "owner")), end=40) == {
        7: Ran(1, 10, 10),
        8: Ran(1, 30, 30),
    }


def test_a_handler_that_had_begun_before_ends_nothing() -> None:
    assert account((10, Ended(RunnerKind.SOFTIRQ)), (20, SwitchedIn(7, 8, "other")), end=30) == {
        7: Ran(1, 20, 20),
        8: Ran(1, 10, 10),
    }


@given(st.lists(st.tuples(st.integers(0, 50), TASKS, EVENTS), min_size=1), st.integers(0, 50))
def test_no_microsecond_is_lost_or_counted_twice(steps: list[tuple[int, int, Event]], rest: int) -> None:
    """And no slice is longer than all of them, whatever the kernel tells."""
    end = sum(pause for pause, _, _ in steps) + rest
    ledger, at = Ledger(0, end), 0
    for pause, task, event in steps:
        at += pause
        ledger.take(TraceLine(at, 1, task, "task", event))
    found = ledger.closed()
    assert sum(ran.total for ran in found.values()) == end
    assert all(0 <= ran.longest <= ran.total for ran in found.values())


@given(st.lists(st.tuples(st.integers(0, 50), EVENTS), min_size=1))
def test_cpus_do_not_mix(steps: list[tuple[int, Event]]) -> None:
    """The same on two CPUs at once is the same on each of them."""
    ledger, at = Ledger(0, sum(pause for pause, _ in steps)), 0
    for pause, event in steps:
        at += pause
        for cpu in (1, 2):
            ledger.take(TraceLine(at, cpu, 7, "owner", event))
    found: defaultdict[int, dict[object, Ran]] = defaultdict(dict)
    for (cpu, runner), ran in ledger.closed().items():
        found[cpu][runner] = ran
    assert found[1] == found[2]
