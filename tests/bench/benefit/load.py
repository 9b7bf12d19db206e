"""The load: requests for the server, and when the plain neighbours are busy. The same seed gives the same load.

Two shapes of one load. `bursts`: calm and burst alternate at once, and each lasts a random time. `waves`: the rate
rises and falls like a day that takes a minute and a half. Both lie between `CALM` and `BURST` CPUs of work a second, of
requests whose CPU times are log-normal: most are short, and some are many times the mean.
"""

from __future__ import annotations

import enum
import math
import random
from array import array
from itertools import pairwise
from typing import Final, NamedTuple

CALM: Final = 16.0
BURST: Final = 40.0
"""CPUs that the server would keep busy: the rate of requests times their mean CPU time."""

CALM_SECONDS: Final = 30.0
BURST_SECONDS: Final = 15.0
"""The means of two exponential distributions."""

WAVE_SECONDS: Final = 90.0

REQUEST: Final = 0.02
"""Seconds of CPU time, the mean: a page that is rendered, not a byte that is fetched."""

SPREAD: Final = 1.0
"""Sigma of the logarithm: the 99th percentile is six times the mean."""

NEIGHBOURS: Final = 12
"""Plain containers with one thread each, busy half of the time."""

NEIGHBOUR_SECONDS: Final = 2.0
"""The mean of how long one is busy, and of how long it rests."""


class Shape(enum.StrEnum):
    """How the rate of requests changes."""

    BURSTS = "bursts"
    WAVES = "waves"


class Requests(NamedTuple):
    """When each arrives, in seconds; its CPU time in seconds; and its luck (0 to 1), which decides whether it has to
    wait for a CPU.
    """

    at: array[float]
    work: array[float]
    luck: array[float]


class Busy(NamedTuple):
    """How many neighbours are busy since which time."""

    at: array[float]
    busy: array[int]


def requests(shape: Shape, seed: int, seconds: float) -> Requests:
    """Return all requests from 0 until `seconds`."""
    chance = random.Random(f"requests {shape} {seed}")
    at = _bursts(chance, seconds) if shape is Shape.BURSTS else _waves(chance, seconds)
    middle = math.log(REQUEST) - SPREAD**2 / 2
    work = array("d", (chance.lognormvariate(middle, SPREAD) for _ in at))
    return Requests(at, work, array("d", (chance.random() for _ in at)))


def poisson(chance: random.Random, began: float, ended: float, rate: float) -> array[float]:
    """Return independent arrivals, `rate` per second."""
    at, now = array("d"), began + chance.expovariate(rate)
    while now < ended:
        at.append(now)
        now += chance.expovariate(rate)
    return at


def _bursts(chance: random.Random, seconds: float) -> array[float]:
    edges, is_burst = [0.0], False
    while edges[-1] < seconds:
        edges.append(edges[-1] + chance.expovariate(1 / (BURST_SECONDS if is_burst else CALM_SECONDS)))
        is_burst = not is_burst
    at = array("d")
    for number, (began, ended) in enumerate(pairwise(edges)):
        at.extend(poisson(chance, began, min(ended, seconds), (BURST if number % 2 else CALM) / REQUEST))
    return at


def _waves(chance: random.Random, seconds: float) -> array[float]:
    # As many as at the crest, of which each stays with the chance that belongs to its time.
    middle, height, phase = (BURST + CALM) / 2, (BURST - CALM) / 2, chance.random()
    most = poisson(chance, 0.0, seconds, BURST / REQUEST)

    def rate(now: float) -> float:
        return middle - height * math.cos(2 * math.pi * (now / WAVE_SECONDS + phase))

    return array("d", (now for now in most if chance.random() * BURST < rate(now)))


def neighbours(seed: int, seconds: float) -> Busy:
    """Return how many neighbours are busy from 0 until `seconds`."""
    chance = random.Random(f"neighbours {seed}")
    changes: list[tuple[float, int]] = []
    count = 0
    for _ in range(NEIGHBOURS):
        is_busy, now = chance.random() < 0.5, 0.0
        count += is_busy
        while (now := now + chance.expovariate(1 / NEIGHBOUR_SECONDS)) < seconds:
            is_busy = not is_busy
            changes.append((now, 1 if is_busy else -1))
    at, counts = array("d", [0.0]), array("i", [count])
    for now, change in sorted(changes):
        count += change
        at.append(now)
        counts.append(count)
    return Busy(at, counts)
