"""SampledNotices: whether every loss of CPUs was announced, for as long as promised, as seen in samples."""

from __future__ import annotations

import time
from typing import Final

from state.cpuset import EMPTY, CPUSet
from state.projection import Projection, Sharing
from tests.live.waiting import PATIENCE
from tests.support.notices import Notices

_EXCUSED_SECONDS: Final = 2.0 * PATIENCE
"""For so long after its users began to do something to a container, nothing is said of it."""


class _Track:
    """What is known of one start of one container."""

    def __init__(self) -> None:
        self.granted = EMPTY
        self.had = EMPTY
        self.seen_at = 0.0
        self.told_at = 0.0
        self.notices = Notices()


class SampledNotices:
    """Takes samples of containers, in their order."""

    def __init__(self) -> None:
        self.kept: list[float] = []
        """Of each loss that could be judged, for how long it was known at least. Seconds."""
        self.spared = 0
        """Losses that were acknowledged, or of containers that somebody was doing something to."""
        self._tracks: dict[str, _Track] = {}
        self._touched_at: dict[str, float] = {}
        self._acknowledged: set[tuple[str, int]] = set()

    def touched(self, id: str) -> None:
        """Record that a user stops it, starts it, or similar. From any thread."""
        self._touched_at[id] = time.monotonic()

    def acknowledged(self, id: str, generation: int) -> None:
        """Record that it acknowledges. From any thread, and before it does so."""
        self._acknowledged.add((id, generation))

    def ended(self, id: str) -> None:
        """Record that it does not run."""
        self._tracks.pop(id, None)

    def sample(self, id: str, told: Projection | None, cpus: CPUSet, at: float) -> str:
        """Record that it runs on these CPUs with this projection (None: not certain), in a sample that began at this
        time. Return what is wrong with that, or "".
        """
        track = self._tracks.setdefault(id, _Track())
        lost = track.had & track.granted - cpus
        found = self._judged(id, track, lost, at) if lost else ""
        track.granted -= lost
        track.had, track.seen_at = cpus, at
        if told is not None:
            self._listen(track, told, at)
        return found

    def _judged(self, id: str, track: _Track, lost: CPUSet, at: float) -> str:
        acks = [generation for container, generation in self._acknowledged.copy() if container == id]
        is_touched = at - self._touched_at.get(id, -_EXCUSED_SECONDS) < _EXCUSED_SECONDS
        if is_touched or track.notices.are_acknowledged(lost, acks):
            self.spared += 1
            return ""
        if lost <= track.notices.cpus:
            self.kept.append(min(track.notices.read_for(lost, track.seen_at)))
        fault = track.notices.fault(lost, track.seen_at, acks)
        return f"lost {lost} {fault}" if fault else ""

    def _listen(self, track: _Track, told: Projection, at: float) -> None:
        track.notices.read(told, at, unsaid_at=track.told_at)
        # Where a newcomer merely starts, not confined yet, it has been granted nothing.
        if told.sharing is Sharing.EXCLUSIVE and (told.settled or track.granted):
            track.granted |= told.cpus & (told.desired | told.leaving)
        track.told_at = at
