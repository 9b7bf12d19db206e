"""A judge beside each live test with a daemon: nobody who is told to be alone has another container's thread beside it.

It reads the kernel and the projections, twenty times a second, and knows nothing else of the sidecar. A projection and
the kernel cannot be read in one instant, so the projection is read before and after the kernel, and must be the same.
A daemon that is dead or frozen tells nothing: its files are what it told last, as their leases say.

Without a hand on the cgroups a newcomer runs where the engine puts it, until the daemon has seen it: then only a
neighbour that stays contradicts.

A test that itself puts a container beside an owner, behind the daemon's back, is marked `intrudes` with the reason.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from state import codec
from state.cpuset import EMPTY, CPUSet, union
from state.projection import STATUS, Projection
from tests.live.kernelview import living
from tests.live.sidecarprocess import SidecarProcess
from tests.live.waiting import PATIENCE

_PAUSE: Final = 0.05
_ID: Final = re.compile(r"[0-9a-f]{64}")
_MOST: Final = 10
"""Contradictions that are kept."""
_UNSEEN_SECONDS: Final = 2.0 * PATIENCE
"""How long a newcomer may run beside an owner where there is no hand."""
_NO_HAND: Final = "the engine alone changes CPUs"
"""How the daemon's line in the log begins that says so."""


class AloneJudge:
    """Judges what one daemon tells below a directory. `start` it, `stop` it, and read `contradictions`."""

    def __init__(self, projections: Path, is_awake: Callable[[], bool], has_hand: Callable[[], bool]) -> None:
        self.contradictions: list[str] = []
        self.judged = 0
        """Samples in which a container was told to be alone."""
        self._is_awake = is_awake
        self._has_hand = has_hand
        self._since: dict[tuple[str, str], float] = {}
        """When another container was first seen beside an owner, as long as it is seen there."""
        self._by_id = projections / "by-id"
        first = Path("/sys/fs/cgroup/cpuset")
        self._root, self._threads = (first, "tasks") if first.is_dir() else (first.parent, "cgroup.threads")
        self._read: dict[str, tuple[bytes, Projection | None]] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="judge", daemon=True)
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start judging."""
        self._thread.start()

    def stop(self) -> None:
        """Stop judging. Raises the error of a judge that broke."""
        self._is_over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._is_over.wait(_PAUSE):
                self._sample()
        except BaseException as error:
            self._error = error
            raise

    def _sample(self) -> None:
        told = self._told_alone()
        if not told:
            return
        self.judged += 1
        groups = dict(self._groups())
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
        """Return the other containers of the owner's engine that may run on any of these CPUs, and where they may."""
        parent = next((group.parent for id, group in groups.items() if id.startswith(owner)), None)
        others = [(id, group) for id, group in groups.items() if group.parent == parent and not id.startswith(owner)]
        return [(id, allowed) for id, group in others if (allowed := self._allowed_below(group)) & cpus]

    def _told_alone(self) -> Mapping[str, Projection]:
        """Return what a daemon that is awake tells containers that are alone, by the first 12 digits of their ids: the
        very same objects as long as the files are the same.
        """
        if not self._is_awake():
            return {}
        found = {}
        for short in _names(self._by_id):
            try:
                content = (self._by_id / short / STATUS).read_bytes()
            except OSError:
                continue
            if short not in self._read or self._read[short][0] != content:
                self._read[short] = content, _decoded(content)
            projection = self._read[short][1]
            if projection is not None and projection.alone:
                found[short] = projection
        return found

    def _groups(self) -> Iterator[tuple[str, Path]]:
        """Yield the id and the cgroup of each container of any engine."""
        for folder, below, _ in os.walk(self._root):
            if ids := _ID.findall(folder):
                below.clear()
                yield ids[0], Path(folder)

    def _allowed_below(self, folder: Path) -> CPUSet:
        found = EMPTY
        for inner, _, files in os.walk(folder):
            if self._threads in files:
                found |= union(each.allowed for each in living(Path(inner) / self._threads))
        return found


@contextmanager
def judged_alone(sidecar: SidecarProcess, *, intrudes: bool) -> Iterator[AloneJudge]:
    """Judge what this daemon tells while the block runs; AssertionError after it, unless the test intrudes."""
    judge = AloneJudge(sidecar.projections, lambda: sidecar.is_awake, lambda: not sidecar.has_logged(_NO_HAND))
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


def _decoded(content: bytes) -> Projection | None:
    try:
        return codec.decode(content, Projection)
    except msgspec.MsgspecError:
        return None
