"""Watches, while containers churn and daemons die, that no container is called alone wrongly.

A projection and the kernel cannot be read in one instant. So the projection is read before and after the kernel, and a
container is judged only if both reads agree. Then, at every instant, whether the sidecar lives or not:

1. Two settled owners share no CPU, neither in their projections nor in the kernel.
2. A settled owner runs exactly on the CPUs of its projection.
3. A container that is called settled runs at least on the CPUs of its projection: no projection is ahead of the truth.
4. No other settled container runs on the CPUs of a settled owner.
5. If requested: a loss of granted CPUs was announced for as long as promised (`notices`).

A newcomer without a first look has no projection, and may touch an owner's CPUs until it is moved: that is measured,
and not judged, unless the watch is strict, because every start asks. Nor is a container that is excused judged, as long
as its file stays as it is. In an emulated machine a violation must stand for an instant.
"""

from __future__ import annotations

import threading
import time
from itertools import combinations
from pathlib import Path
from typing import Final

from compose.demo.sampler import Sampler
from state.cpuset import CPUSet
from state.projection import Projection, Sharing
from tests.live.kernelview import KernelView
from tests.live.notices import SampledNotices
from tests.live.toldfiles import ToldFiles
from tests.live.waiting import INSTANT, PATIENCE

_PAUSE: Final = 0.001 * PATIENCE

_SHOWN: Final = 20
"""Violations that are kept in words."""


class Watcher(Sampler):
    """Give it containers with `watch`; `start` it, `stop` it, and read what it counted."""

    def __init__(self, projections: Path, notices: SampledNotices | None = None, *, is_strict: bool = False) -> None:
        super().__init__(_PAUSE, self.sample)
        self.violations: list[str] = []
        self.samples = 0
        self.judged = 0
        """Samples with a settled owner: those that could have shown a double grant."""
        self.owners: list[str] = []
        """Settled owners, one after another: each change of hands is an entry."""
        self._notices = notices
        self._is_strict = is_strict
        self.exposures = 0
        self.longest_exposure = 0.0
        self.pause = threading.RLock()
        """Held by whoever does not want to be watched for a moment."""
        self._read = ToldFiles(projections, self.violations.append).read
        self._kernel = KernelView()
        self._watched: set[str] = set()
        self._excused: dict[str, Projection | None] = {}
        self._exposed: dict[tuple[str, str], float] = {}
        self._standing: dict[str, float] = {}
        """Since when each violation of the last sample stands."""
        self._found_now: dict[str, float] = {}

    def watch(self, id: str) -> None:
        """Watch this container from now on. From any thread."""
        self._watched.add(id)

    def forget(self, id: str) -> None:
        """Stop watching a removed container."""
        self._watched.discard(id)

    def excuse(self, id: str) -> None:
        """Do not judge this container until its file changes: it tells what was true when the sidecar was killed."""
        with self.pause:
            self._excused[id] = self._read(id)

    def sample(self) -> None:
        """Judge all watched containers, unless somebody holds `pause`: then as soon as it is free."""
        with self.pause:
            self._compare()

    def _compare(self) -> None:
        ids, began = list(self._watched.copy()), time.monotonic()
        before = {id: self._read(id) for id in ids}
        running = self._kernel.all_allowed(ids)
        told = {
            id: found for id, found in before.items() if found is not None and id in running and found is self._read(id)
        }
        self.samples += 1
        self._judge({id: found for id, found in told.items() if found is not self._excused.get(id)}, running)
        self._standing, self._found_now = self._found_now, {}
        # 5. With notice.
        if self._notices is None:
            return
        for id in ids:
            if id not in running:
                self._notices.ended(id)
            elif complaint := self._notices.sample(id, told.get(id), running[id], began):
                self._note(_described(complaint, before[id], running[id]))

    def _judge(self, told: dict[str, Projection], running: dict[str, CPUSet]) -> None:
        settled = {id: each for id, each in told.items() if each.settled and each.sharing is not Sharing.UNMANAGED}
        owners = {id: each for id, each in settled.items() if each.sharing is Sharing.EXCLUSIVE}
        self.judged += bool(owners)
        for id in owners:
            if not self.owners or self.owners[-1] != id:
                self.owners.append(id)
        # 1. Apart from each other.
        for (one, first), (two, second) in combinations(owners.items(), 2):
            if first.cpus & second.cpus:
                # For no instant: both files are the sidecar's own.
                self._note(_described("two owners share CPUs", first, running[one], second, running[two]))
            elif running[one] & running[two]:
                self._found("two owners share CPUs", first, running[one], second, running[two])
        # 2. Exactly there.
        for id, each in owners.items():
            if running[id] != each.cpus:
                self._found("an owner runs elsewhere", each, running[id])
        # 3. Never ahead.
        for id, each in settled.items():
            if not each.cpus <= running[id]:
                self._found("what is told is ahead of the truth", each, running[id])
        # 4. Alone.
        touched = {
            (owner, id): (owners[owner], cpus)
            for owner in owners
            for id, cpus in running.items()
            if id != owner and id not in owners and cpus & owners[owner].cpus
        }
        for (_, id), (owner, cpus) in touched.items():
            if id in settled:
                self._found("somebody settled is on an owner's CPUs", owner, settled[id], cpus)
            elif self._is_strict:
                self._found(f"the newcomer {id[:12]} is on an owner's CPUs", owner, cpus)
        self._measure(set(touched))

    def _measure(self, touched: set[tuple[str, str]]) -> None:
        """Measure how long newcomers stay on an owner's CPUs, from sample to sample."""
        now = time.monotonic()
        for pair in touched - set(self._exposed):
            self._exposed[pair] = now
            self.exposures += 1
        for pair in set(self._exposed) - touched:
            self.longest_exposure = max(self.longest_exposure, now - self._exposed.pop(pair))

    def _found(self, what: str, *who: Projection | CPUSet | None) -> None:
        """Note a violation that has stood for longer than an instant."""
        described, now = _described(what, *who), time.monotonic()
        since = self._found_now[described] = self._standing.get(described, now)
        if now - since >= INSTANT:
            self._note(described)

    def _note(self, described: str) -> None:
        if len(self.violations) < _SHOWN:
            self.violations.append(f"sample {self.samples}: {described}")


def _described(what: str, *who: Projection | CPUSet | None) -> str:
    said = [
        f"{each.name} ({each.sharing}, told {each.cpus}, generation {each.generation})"
        if isinstance(each, Projection)
        else f"runs on {each}"
        for each in who
        if each is not None
    ]
    return f"{what}: {', '.join(said)}"
