"""All runs of the study: every case under the loads of every seed; and one burst, watched closely."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import Final, NamedTuple

from tests.bench.benefit.cases import BATCH, CASES, SERVER, Case
from tests.bench.benefit.load import Shape, neighbours, requests
from tests.bench.benefit.lockstep import LEAD, WARM_UP, Outcome, Run, play

SECONDS: Final = 120.0
"""Measured of each run: two or three bursts, or one wave and a third."""

SAMPLE: Final = 0.25
"""Seconds between two moments of a history."""


class Moment(NamedTuple):
    """A host at a time: CPUs' worth of requests that arrived a second, of requests in line; CPUs that each may use."""

    at: float
    asked: float
    line: float
    server: int
    batch: int


def study(
    seeds: int, seconds: float = SECONDS, *, cases: Sequence[Case] = CASES, processes: int | None = None
) -> list[Outcome]:
    """Return the outcomes, case by case; the same for the same arguments, with any number of processes (None: all
    CPUs).
    """
    runs = [(case, shape, seed, seconds) for case, shape, seed in product(cases, Shape, range(1, seeds + 1))]
    count = processes or len(os.sched_getaffinity(0))
    if count == 1:
        return [_played(run) for run in runs]
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(_played, runs, chunksize=4))


def _played(run: tuple[Case, Shape, int, float]) -> Outcome:
    return play(*run)


def chosen(outcomes: Iterable[Outcome], case: Case, shape: Shape) -> list[Outcome]:
    """Return the outcomes of one case under one shape of load."""
    return [each for each in outcomes if each.case == case.name and each.shape is shape]


def history(case: Case, shape: Shape, seed: int, seconds: float = SECONDS) -> list[Moment]:
    """Return one run, moment by moment."""
    until = WARM_UP + seconds
    load = requests(shape, seed, until)
    run = Run(case, load, neighbours(seed, until), until)
    found: list[Moment] = []
    first = line = 0
    for number in range(1, round(until / SAMPLE) + 1):
        now = number * SAMPLE
        for stretch in range(5):
            run.stretch(now - SAMPLE + (stretch + 1) * SAMPLE / 5)
        last = first
        while last < len(load.at) and load.at[last] < now:
            last += 1
        asked = sum(load.work[first:last])
        first = last
        line = run.server.waiting
        servers, batch = len(run.host.cpus_of(SERVER)), len(run.host.cpus_of(BATCH))
        found.append(Moment(now, asked / SAMPLE, line, servers, batch))
    assert abs(run.host.now - LEAD - until) < SAMPLE
    return found
