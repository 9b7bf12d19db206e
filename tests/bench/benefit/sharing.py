"""The speed that CPUs give to the parties that share them: the server's threads, and the batch job.

Alone on its CPUs (an exclusive grant):

1. n threads on k CPUs run at full speed while n <= k, and at k/n otherwise, less the cost of switching between them.

Where all parties share all CPUs, as in the kernel's group scheduling with evenly spread threads:

2. A neighbour with one thread keeps one CPU: all of its shares count there, and those of the large parties are spread
   over many. So the server and the batch job share the other P.
3. The batch job has a thread on each of them. The server's n busy threads lie on n of them (or on all). There a group
   counts with its shares divided by its CPUs: the server with r/n, the batch job with 1/P. So a thread of the server
   gets rP / (rP + n) of its CPU, and the batch job the rest.
4. While the batch job is in its serial part, the server's threads are alone.
5. A thread that finds another's data in the cache takes longer for the same work, by a price.
6. A thread that is woken next to another one waits for the end of a slice, by a list of waits.

The prices are those that `costs` measured.
"""

from __future__ import annotations

from functools import cache
from typing import Final

SERIAL: Final = 0.005
"""The share of the batch job's work that one thread must do alone (Amdahl): 64 CPUs do what 48.7 would do at best."""

SWITCHING: Final = 0.96
"""What is left of CPUs on which threads of one program take turns: 2 to 4 threads a CPU did 0.88 to 1.0 of the work."""

CACHE: Final = {1: 1.12, 10: 1.01}
"""CPU time for the same work beside a neighbour on the same CPU, by how many times the neighbour's shares it has."""

LATE: Final = {
    1: (0.0,) * 17 + (0.0018, 0.0030, 0.0036),
    10: (0.0,),
}
"""Seconds that a woken thread waits for its CPU beside a neighbour, in equal parts of all wakes: at equal shares most
preempt at once, and three in twenty wait for what is left of a slice of 3 ms; at ten to one all preempt at once.
"""


def batch_speed(parallel: float) -> float:
    """Return the work of the batch job, in CPUs, when its parallel part runs on this many."""
    return 1 / (SERIAL + (1 - SERIAL) / parallel)


def own_speed(threads: int, cpus: int) -> float:
    """Return the joint speed of a party's threads on CPUs of its own."""
    # 1. Turns, where there are more threads than CPUs.
    return float(threads) if threads <= cpus else cpus * SWITCHING


@cache
def own_speeds(cpus: int, most: int) -> tuple[float, ...]:
    """Return the speed of each of n busy threads on CPUs of their own, for n from 0 to `most`."""
    return (1.0, *(own_speed(threads, cpus) / threads for threads in range(1, most + 1)))


@cache
def shared_speeds(cpus: int, neighbours: int, ratio: int, most: int) -> tuple[float, ...]:
    """Return the speed of each of the server's n busy threads where all share, for n from 0 to `most`."""
    return tuple(_shared(cpus, neighbours, ratio, threads)[0] for threads in range(most + 1))


@cache
def shared_batch(cpus: int, neighbours: int, ratio: int, busy: int) -> float:
    """Return the work of the batch job where all share, while the server has this many busy threads."""
    return _shared(cpus, neighbours, ratio, busy)[1]


def _shared(cpus: int, neighbours: int, ratio: int, busy: int) -> tuple[float, float]:
    # 2. Neighbours keep theirs.
    left = cpus - neighbours
    # 3. The server's share of the CPUs that it is on.
    on = min(busy, left)
    share = ratio * left / (ratio * left + on)
    batch = left - on * share
    price = CACHE[ratio]
    # 5. The batch job pays on the CPUs that both are on.
    parallel = max(batch / (1 + (price - 1) * on / left), 1e-9)
    speed = batch_speed(parallel)
    # 4. How much of the time its serial part takes.
    serial = SERIAL * speed
    each = serial + (1 - serial) * share / price
    return each * (on / busy if busy else 1.0), speed
