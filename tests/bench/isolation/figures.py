"""The figures of all runs: a table of the cases, the two bars, and what ran on the victim's CPU. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from tests.bench.isolation.cases import ALONE, CASES, CONFINED, TRACED, Run

THROUGHPUT_BAR: Final = 0.97
"""With the host confined, a victim does at least this share of what it does alone."""

LATENCY_BAR: Final = 1.5
"""And its p99.9 is at most this many times that of a victim alone."""

_SHOWN: Final = 8


def summary(runs: Sequence[Run]) -> Iterator[str]:
    """Yield the lines: medians over the rounds, with the lowest and the highest."""
    best = max(run.pieces for run in runs)
    yield "| case | work, of the best run | p50, µs | p99, µs | p99.9, µs | longest, µs |"
    yield "| --- |" + " --- |" * 5
    for case in CASES:
        of_case = [run for run in runs if run.case == case.name]
        if of_case:
            cells = [_ranged([run.pieces / best for run in of_case], "{:.3f}")]
            cells += [_ranged([getattr(run, name) for run in of_case], "{:.0f}") for name in Run._fields[2:6]]
            yield f"| {case.name} | " + " | ".join(cells) + " |"
    yield ""
    yield from bars(runs)
    for case in CASES:
        yield from _disturbers(case.name, [run for run in runs if run.case == case.name])


def bars(runs: Sequence[Run]) -> Iterator[str]:
    """Yield whether a victim with the host confined is as good as alone: medians of each round's two runs compared."""
    pairs = list(
        zip(
            [run for run in runs if run.case == CONFINED],
            [run for run in runs if run.case == ALONE],
            strict=False,
        )
    )
    if not pairs:
        return
    work = median(confined.pieces / alone.pieces for confined, alone in pairs)
    tail = median(confined.p999 / alone.p999 for confined, alone in pairs)
    yield f"{CONFINED}: {work:.3f} of the work alone ({_held(held=work >= THROUGHPUT_BAR)}: at least {THROUGHPUT_BAR})"
    yield f"{CONFINED}: p99.9 {tail:.2f} times that alone ({_held(held=tail <= LATENCY_BAR)}: at most {LATENCY_BAR})"


def _held(*, held: bool) -> str:
    return "held" if held else "missed"


def _ranged(values: Sequence[float], form: str) -> str:
    middle, least, most = (form.format(each) for each in (median(values), min(values), max(values)))
    return middle if least == most else f"{middle} ({least} to {most})"


def _disturbers(case: str, runs: Sequence[Run]) -> Iterator[str]:
    """Yield what ran where the victim ran, most first: milliseconds of each traced second."""
    found: dict[str, tuple[float, float]] = {}
    for run in runs:
        for each in run.disturbers:
            # An id of a worker or of a group says nothing here.
            name = f"{each.kind} {each.name.split('/')[0].rstrip('0123456789-')}"
            total, longest = found.get(name, (0.0, 0.0))
            found[name] = total + (each.total_ms or 0.0), max(longest, each.longest_ms or 0.0)
    if not runs:
        return
    yield ""
    yield f"Where the victim ran, {case}: ms a second (longest, ms)"
    seconds = TRACED * len(runs)
    for name, (total, longest) in sorted(found.items(), key=lambda each: -each[1][0])[:_SHOWN]:
        yield f"- {name}: {total / seconds:.2f} ({longest:.2f})"
    if lost := sum(run.lost for run in runs):
        yield f"- {lost} events of the trace were lost: there was more"
