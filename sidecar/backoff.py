"""How long to wait before the next try: doubling, with jitter, up to a limit."""

from __future__ import annotations

import random


class Backoff:
    """Pauses in seconds: about `first`, then twice as long each time, at most `most`; each shortened by up to half.

    The jitter keeps many containers, or many hosts, from retrying at the same moment.
    """

    def __init__(self, rng: random.Random, *, first: float, most: float) -> None:
        self._rng = rng
        self._first = first
        self._most = most
        self._tries = 0

    def pause(self) -> float:
        """Return the next pause, in seconds."""
        longest = min(self._most, self._first * 2.0 ** min(self._tries, 30))
        self._tries += 1
        return longest * (1 - self._rng.random() / 2)

    def reset(self) -> None:
        """Begin again with the shortest pause, after a success."""
        self._tries = 0
