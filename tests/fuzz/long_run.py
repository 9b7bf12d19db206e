"""Fuzz of every edge for longer than `make test` plays it: `python -m tests.fuzz.long_run COUNT [SEED] [EDGE...]`.

COUNT inputs are let in at all edges together, or at those named, from SEED on. Each that escapes is printed with its
edge and its seed, and with its trace the first time.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from typing import Final

from tests.fuzz import engine_edges, host_edges, people_edges
from tests.fuzz.edge import Edge, Escaped, played

EDGES: Final[tuple[Edge, ...]] = (*engine_edges.EDGES, *host_edges.EDGES, *people_edges.EDGES)

_BATCH: Final = 500
_MOST: Final = 50
"""Escapes after which a run ends."""


def main(count: int, first: int = 0, *names: str) -> int:
    """Let inputs in, print what escapes; return 1 if anything does."""
    edges = [number for number, edge in enumerate(EDGES) if not names or edge.name in names]
    each = max(1, count // len(edges))
    batches = [
        (number, range(start, min(start + _BATCH, first + each)))
        for start in range(first, first + each, _BATCH)
        for number in edges
    ]
    began, done, escaped = time.monotonic(), 0, list[Escaped]()
    traces: set[str] = set()
    with multiprocessing.Pool() as pool:
        for size, found in pool.imap_unordered(_batch, batches):
            done += size
            for one in found:
                escaped.append(one)
                last = one.trace.strip().splitlines()[-1]
                print(f"{one.edge}, seed {one.seed}: {one.trace if last not in traces else last}", flush=True)
                traces.add(last)
            if len(escaped) >= _MOST:
                break
    print(f"{done} inputs at {len(edges)} edges, {len(escaped)} escaped, {time.monotonic() - began:.0f} s")
    return 1 if escaped else 0


def _batch(batch: tuple[int, range]) -> tuple[int, list[Escaped]]:
    number, seeds = batch
    return len(seeds), list(played(EDGES[number], seeds))


if __name__ == "__main__":
    wanted, seed = (*map(int, sys.argv[1:3]), 0)[:2]
    sys.exit(main(wanted, seed, *sys.argv[3:]))
