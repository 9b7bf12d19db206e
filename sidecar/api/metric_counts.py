"""What only a reader of every World can count, for metrics: refusals, and requests as the kubelet counts them, since
the daemon began. What is shown of it, and the package for that, is imported with the first question (`metrics.py`).

As the kubelet counts: a request is a grant or a refusal; labels that no request can be read from are neither. Aligned
are grants whose terms guarantee it: whole cores under `full-pcpus-only`, one node under the NUMA rule `single`. One
cache counts where it was preferred, and came about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from sidecar.board import Board
from sidecar.decide.container.terms import Terms
from sidecar.decide.placement.options import ALONG_CACHES, FULL_PCPUS_ONLY
from sidecar.decide.world import World
from sidecar.words.changes import new_refusals
from state.cpuset import CPUSet
from state.demand import NumaRule
from state.refusal import RefusalCode
from state.topology import Topology

Place = tuple[str, str]
"""A boundary, and the scope in which it counts."""

CORE: Final = ("physical_cpu", "container")
CACHE: Final = ("uncore_cache", "container")
NODE: Final = ("numa_node", "container")


class MetricCounts:
    """What was counted since this World: the daemon's first, so that nothing is decided uncounted."""

    def __init__(self, begun: World) -> None:
        self._seen = begun
        self.is_kept = False
        self.refusals: Counter[RefusalCode] = Counter()
        self.grants_before = begun.state.grants
        self.refused = 0
        """Requests that were refused."""
        self.aligned: Counter[Place] = Counter()
        self.unaligned: Counter[Place] = Counter()

    async def keep(self, board: Board) -> None:
        """Count what changes on this board, indefinitely; also what changed before."""
        self.is_kept = True
        async for world in board.worlds():
            self.see(world)

    def see(self, now: World) -> None:
        """Count what changed since the world that was seen last."""
        before, self._seen = self._seen, now
        for key, grant in now.state.assignments.items():
            was = before.state.assignments.get(key)
            if was is not None and was.since == grant.since:
                continue
            terms = Terms(now.settings, grant.demand)
            self.aligned.update(_guaranteed(terms))
            if ALONG_CACHES in terms.options and _is_in_one_cache(now.topology, grant.cpus):
                self.aligned[CACHE] += 1
        for refused in new_refusals(before, now):
            self.refusals[refused.refusal.code] += 1
            if refused.demand is not None:
                self.refused += 1
                self.unaligned.update(_guaranteed(Terms(now.settings, refused.demand)))


def _guaranteed(terms: Terms) -> Iterator[Place]:
    """Yield the boundaries within which these terms allow a grant only."""
    if FULL_PCPUS_ONLY in terms.options:
        yield CORE
    if terms.numa is NumaRule.SINGLE:
        yield NODE


def _is_in_one_cache(topology: Topology, cpus: CPUSet) -> bool:
    return any(cpus <= cache.cpus for cache in topology.caches)
