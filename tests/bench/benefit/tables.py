"""The outcomes as tables for people: medians over the seeds, and the quartiles."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from tests.bench.benefit.cases import Case
from tests.bench.benefit.load import Shape
from tests.bench.benefit.lockstep import Outcome
from tests.bench.benefit.study import chosen

COLUMNS: tuple[tuple[str, Callable[[Outcome], float], int], ...] = (
    ("p50, ms", lambda one: one.p50 * 1e3, 1),
    ("p99, ms", lambda one: one.p99 * 1e3, 0),
    ("p99.9, ms", lambda one: one.p999 * 1e3, 0),
    ("batch job, CPUs' worth", lambda one: one.batch, 1),
    ("the server has, CPUs", lambda one: one.server_cpus, 1),
    ("neighbours got, %", lambda one: one.neighbours * 100, 1),
    ("changes", lambda one: float(one.changes), 0),
    ("of these forced", lambda one: float(one.forced), 0),
)
"""Heading, value, decimals."""


def tables(outcomes: Sequence[Outcome], cases: Sequence[Case]) -> Iterator[str]:
    """Yield the lines of one table for each shape of load, and of one for the times to give back."""
    for shape in Shape:
        yield f"| {shape} | " + " | ".join(heading for heading, _, _ in COLUMNS) + " |"
        yield "| --- |" + " --- |" * len(COLUMNS)
        for case in cases:
            found = chosen(outcomes, case, shape)
            cells = [_cell([value(one) for one in found], digits) for _, value, digits in COLUMNS]
            yield f"| {case.name} | " + " | ".join(cells) + " |"
        yield ""
    yield "| from a take's decision until its CPUs were left, s | takes | median | p99 | longest |"
    yield "| --- | --- | --- | --- | --- |"
    for case in cases:
        times = sorted(seconds for one in outcomes if one.case == case.name for seconds in one.given_back)
        if times:
            high = times[min(len(times) - 1, int(0.99 * len(times)))]
            yield f"| {case.name} | {len(times)} | {statistics.median(times):.2f} | {high:.2f} | {times[-1]:.2f} |"


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the values below which a quarter, half and three quarters of the values lie; of one value, itself."""
    if len(values) == 1:
        return (values[0],) * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _cell(values: list[float], digits: int) -> str:
    low, middle, high = (f"{value:.{digits}f}" for value in quartiles(values))
    return middle if low == high else f"{middle} ({low} to {high})"
