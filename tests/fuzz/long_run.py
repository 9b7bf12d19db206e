"""Fuzz of every edge for longer than `make test` plays it: `python -m tests.fuzz.long_run COUNT [SEED] [EDGE...]`.

COUNT inputs are let in at all edges together, or at those named, from SEED on. Edges differ in cost by a factor of two
hundred: with `60s` as COUNT, each has a minute of a processor, and the cheap ones take in most. Each input that escapes
is printed with its edge and its seed, and with its trace the first time. At the end, or at Ctrl-C, it prints how many
were let in at which edge.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.pool import Pool
from typing import Final

from tests.fuzz import engine_edges, front_edges, host_edges, people_edges
from tests.fuzz.edge import Edge, Escaped, played

FRONTS: Final = front_edges.EDGES if front_edges.can_be_built() else ()
"""Those of the two fronts need a C compiler, and take some seconds to build."""

EDGES: Final[tuple[Edge, ...]] = (*engine_edges.EDGES, *host_edges.EDGES, *people_edges.EDGES, *FRONTS)

_BATCH: Final = 500
_MOST: Final = 50
"""Escapes after which a run ends."""


Batch = tuple[int, range]
"""The number of an edge, and seeds."""


def main(count: str, first: int = 0, *names: str) -> int:
    """Let inputs in, print what escapes; return 1 if anything does."""
    edges = [number for number, edge in enumerate(EDGES) if not names or edge.name in names]
    began, done, escaped = time.monotonic(), Counter[str](), list[Escaped]()
    traces: set[str] = set()
    # A shell lets what runs in the background ignore it. Ctrl-C reaches the workers as well: they go with the pool.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="cpuset-fuzz-", dir=host_edges.in_memory()) as folder,
        multiprocessing.Pool(initializer=_begin, initargs=(folder,)) as pool,
    ):
        if count.endswith("s"):
            played_ones = _for_seconds(pool, edges, float(count[:-1]), first)
        else:
            played_ones = _so_many(pool, edges, int(count), first)
        with suppress(KeyboardInterrupt):
            for number, seeds, _, found in played_ones:
                done[EDGES[number].name] += len(seeds)
                for one in found:
                    escaped.append(one)
                    last = one.trace.strip().splitlines()[-1]
                    print(f"{one.edge}, seed {one.seed}: {one.trace if last not in traces else last}", flush=True)
                    traces.add(last)
                if len(escaped) >= _MOST:
                    break
    seconds = time.monotonic() - began
    for name, size in sorted(done.items(), key=lambda item: (item[1], item[0])):
        print(f"{size:>10} {name}")
    print(f"{done.total()} inputs at {len(edges)} edges, {len(escaped)} escaped, {seconds:.0f} s")
    return 1 if escaped else 0


def _begin(folder: str) -> None:
    """What a worker leaves is in this folder."""
    tempfile.tempdir = folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)


Played = tuple[int, range, float, list[Escaped]]
"""The number of an edge, the seeds, the seconds of a processor that they took, and what escaped."""


def _so_many(pool: Pool, edges: Iterable[int], count: int, first: int) -> Iterator[Played]:
    """Play as many in all, as many at each edge."""
    edges = list(edges)
    each = max(1, count // len(edges))
    batches = [
        (number, range(start, min(start + _BATCH, first + each)))
        for start in range(first, first + each, _BATCH)
        for number in edges
    ]
    yield from pool.imap_unordered(_batch, batches)


def _for_seconds(pool: Pool, edges: Iterable[int], seconds: float, first: int) -> Iterator[Played]:
    """Play at each edge for so many seconds of a processor."""
    spent, starts = dict.fromkeys(edges, 0.0), Counter(dict.fromkeys(edges, first))
    while open_ones := [number for number, used in spent.items() if used < seconds]:
        batches = []
        for number in open_ones:
            # The first batch shows how many fill a tenth of the time.
            per_input = spent[number] / max(1, starts[number] - first)
            size = int(min(seconds / 10 / per_input, 100 * _BATCH)) if per_input else _BATCH // 10
            batches.append((number, range(starts[number], starts[number] + max(1, size))))
            starts[number] += max(1, size)
        for found in pool.imap_unordered(_batch, batches):
            spent[found[0]] += found[2]
            yield found


def _batch(batch: Batch) -> Played:
    number, seeds = batch
    began = time.process_time()
    found = list(played(EDGES[number], seeds))
    return number, seeds, time.process_time() - began, found


if __name__ == "__main__":
    wanted, seed = (*sys.argv[1:3], "0")[:2]
    sys.exit(main(wanted, int(seed), *sys.argv[3:]))
