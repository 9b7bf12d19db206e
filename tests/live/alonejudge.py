"""A judge beside each live test with a daemon: a container that is told to be alone has no other's thread beside it.

It reads the kernel and the projections, twenty times a second, and knows nothing else of the sidecar. A projection and
the kernel cannot be read in one instant, so the projection is read before and after the kernel, and must be the same.
A daemon that is dead or frozen tells nothing: its files are what it told last, as their leases say. Nor does one that
has only been started, until its log begins: the leases of the last one may count for some seconds more.

Without a hand on the cgroups a newcomer runs where the engine puts it, until the daemon has seen it: then only a
neighbour that stays contradicts.

A test that itself puts a container beside an owner, behind the daemon's back, is marked `intrudes` with the reason.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from compose.demo.sampler import Sampler
from state.cpuset import CPUSet
from state.projection import Projection
from tests.live.kernelview import KernelView
from tests.live.sidecarprocess import SidecarProcess
from tests.live.toldfiles import ToldFiles
from tests.live.waiting import PATIENCE

_PAUSE: Final = 0.05
_MOST: Final = 10
"""Contradictions that are kept."""
_UNSEEN_SECONDS: Final = 2.0 * PATIENCE
"""How long a newcomer may run beside an owner where there is no hand."""
_NO_HAND: Final = "the engine alone changes CPUs"
"""How the daemon's line in the log begins that says so."""


class AloneJudge(Sampler):
    """Judges what one daemon tells below a directory. `start` it, `stop` it, and read `contradictions`."""

    def __init__(self, projections: Path, is_awake: Callable[[], bool], has_hand: Callable[[], bool]) -> None:
        super().__init__(_PAUSE, self.sample)
        self.contradictions: list[str] = []
        self.judged = 0
        """Samples in which a container was told to be alone."""
        self._is_awake = is_awake
        self._has_hand = has_hand
        self._since: dict[tuple[str, str], float] = {}
        """When another container was first seen beside an owner, as long as it is seen there."""
        self._files = ToldFiles(projections)
        self._kernel = KernelView()

    def sample(self) -> None:
        """Compare once what is told with the kernel."""
        told = self._told_alone()
        if not told:
            return
        self.judged += 1
        groups = self._kernel.groups()
        beside = {owner: self._beside(groups, owner, each.cpus) for owner, each in told.items()}
        again = self._told_alone()
        now, seen = time.monotonic(), dict[tuple[str, str], float]()
        for owner, each in told.items():
            if again.get(owner) is not each:
                continue
            for id, cpus in beside[owner]:
                seen[owner, id] = since = self._since.get((owner, id), now)
                if now - since >= (0.0 if self._has_hand() else _UNSEEN_SECONDS) and len(self.contradictions) < _MOST:
                    self.contradictions.append(
                        f"{each.name} is told to be alone on {each.cpus}, and {id[:12]} may run on {cpus}"
                    )
        self._since = seen

    def _beside(self, groups: Mapping[str, Path], owner: str, cpus: CPUSet) -> list[tuple[str, CPUSet]]:
        """Return the other containers of the owner's engine that may run on any of these CPUs, and where they may.
        They are below the same parent, in pods or not, or the daemon tells of them.
        """
        above = next((self._kernel.parent_of(group) for id, group in groups.items() if id.startswith(owner)), None)
        if above is None:
            # It runs no more.
            return []
        told = set(_names(self._files.by_id))
        others = [
            (id, group)
            for id, group in groups.items()
            if not id.startswith(owner) and (id[:12] in told or self._kernel.parent_of(group) == above)
        ]
        return [(id, allowed) for id, group in others if (allowed := self._kernel.allowed_below(group)) & cpus]

    def _told_alone(self) -> Mapping[str, Projection]:
        """Return what a daemon that is awake tells containers that are alone, by the first 12 digits of their ids: the
        very same objects as long as the files are the same.
        """
        if not self._is_awake():
            return {}
        told = {short: self._files.read(short) for short in _names(self._files.by_id)}
        return {short: each for short, each in told.items() if each is not None and each.alone}


@contextmanager
def judged_alone(sidecar: SidecarProcess, *, intrudes: bool) -> Iterator[AloneJudge]:
    """Judge what this daemon tells while the block runs; AssertionError after it, unless the test intrudes."""
    is_up = lambda: sidecar.is_awake and bool(sidecar.log())  # noqa: E731
    judge = AloneJudge(sidecar.projections, is_up, lambda: not sidecar.has_logged(_NO_HAND))
    judge.start()
    try:
        yield judge
    finally:
        judge.stop()
    assert intrudes or not judge.contradictions, judge.contradictions


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
