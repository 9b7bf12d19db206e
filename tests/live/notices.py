"""Whether every loss of CPUs was told before, for as long as was promised, as seen from outside in samples.

What is told may have been written just after the sample before. So time is counted from the sample before the first
that shows it, to the last one that still has the CPUs.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from state.cpuset import EMPTY, CPUSet
from state.projection import Projection, Sharing
from tests.live.waiting import PATIENCE

_EXCUSED_SECONDS: Final = 2.0 * PATIENCE
"""For so long after its users began to do something to a container, nothing is said of it."""


class _Promise(NamedTuple):
    """That these CPUs leave, not before so many seconds are over, since a time when that was not told yet."""

    generation: int
    leaving: CPUSet
    seconds: float
    not_told_at: float
    told_at: float


class _Track:
    """What is known of one container."""

    def __init__(self) -> None:
        self.granted = EMPTY
        self.had = EMPTY
        self.seen_at = 0.0
        self.told_at = 0.0
        self.promises: list[_Promise] = []


class Notices:
    """Feed it samples of containers, in their order."""

    def __init__(self) -> None:
        self.kept: list[float] = []
        """Of each loss that could be judged, for how long it was known at least. Seconds."""
        self.spared = 0
        """Losses that were acknowledged, or of containers that somebody was doing something to."""
        self._tracks: dict[str, _Track] = {}
        self._touched_at: dict[str, float] = {}
        self._acknowledged: set[tuple[str, int]] = set()

    def touched(self, id: str) -> None:
        """Somebody stops it, starts it, or does something like that. From any thread."""
        self._touched_at[id] = time.monotonic()

    def acknowledged(self, id: str, generation: int) -> None:
        """It says that it has left. From any thread, and before it says so."""
        self._acknowledged.add((id, generation))

    def ended(self, id: str) -> None:
        """It does not run."""
        self._tracks.pop(id, None)

    def sample(self, id: str, told: Projection | None, cpus: CPUSet, at: float) -> str:
        """It runs on these CPUs and is told this (None: not certain), in a sample that began at this time. What is
        wrong with that, or ""."""
        track = self._tracks.setdefault(id, _Track())
        lost = track.had & track.granted - cpus
        found = self._judged(id, track, lost, at) if lost else ""
        track.granted -= lost
        track.had, track.seen_at = cpus, at
        if told is not None:
            self._listen(track, told, at)
        return found

    def _judged(self, id: str, track: _Track, lost: CPUSet, at: float) -> str:
        promises = [each for each in track.promises if lost <= each.leaving]
        is_touched = at - self._touched_at.get(id, -_EXCUSED_SECONDS) < _EXCUSED_SECONDS
        if is_touched or any((id, each.generation) in self._acknowledged for each in promises):
            self.spared += 1
            return ""
        if not promises:
            return f"lost {lost} without notice"
        self.kept.append(track.seen_at - promises[0].told_at)
        for each in promises:
            if (known := track.seen_at - each.not_told_at) < each.seconds:
                return f"lost {lost} {known:.3f} s at most after generation {each.generation} said {each.seconds} s"
        return ""

    def _listen(self, track: _Track, told: Projection, at: float) -> None:
        stays = told.cpus - told.leaving
        track.promises = [each for each in track.promises if not each.leaving & stays]
        # Where a newcomer merely starts, unconfined yet, it has been granted nothing.
        if told.sharing is Sharing.EXCLUSIVE and (told.settled or track.granted):
            track.granted |= told.cpus & (told.desired | told.leaving)
        if told.leaving and all(each.generation != told.generation for each in track.promises):
            seconds = told.deadline_seconds or 0.0
            track.promises.append(_Promise(told.generation, told.leaving, seconds, track.told_at, at))
        track.told_at = at
