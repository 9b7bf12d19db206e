"""Intakes: what is kept of an engine's answer while it comes, so that no container's author decides how much that is.

The engine cannot leave anything out of its answers. A usual one is kept whole. A longer one is sifted while it comes,
in bounded memory: an answer of 700 MB costs the time to read it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from sidecar.engines.byte_lines import Lines, Torn
from sidecar.engines.json_sieve import OF_A_CONTAINER, OF_A_LIST, Bounds, Picks, Sieve
from sidecar.failures import EngineFailed

_MIB: Final = 1024 * 1024

SMALL_BYTES: Final = 4 * _MIB
"""The limit of an answer without any text of the containers' authors."""

PLAIN_BYTES: Final = _MIB
"""Up to here the description of one container is kept whole."""

PLAIN_LIST_BYTES: Final = 16 * _MIB
"""Up to here the list of all containers is kept whole: 4,000 usual ones."""


class Intake(Protocol):
    """Takes an answer in pieces. Make one for each answer."""

    def feed(self, piece: bytes) -> None:
        """Take the next piece. Raise EngineFailed if this answer is not read any further."""

    def answer(self) -> bytearray:
        """Return what was kept, after the last piece."""


class Entire:
    """Keeps an answer of at most so many bytes."""

    def __init__(self, most: int = SMALL_BYTES) -> None:
        self._most = most
        self._kept = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take the next piece. Raise EngineFailed if it is too many."""
        self._kept += piece
        if len(self._kept) > self._most:
            raise EngineFailed(f"the engine's answer is larger than {self._most // _MIB} MiB: it was not read")

    def answer(self) -> bytearray:
        """Return the answer."""
        return self._kept


class Sifted:
    """Keeps the wanted members of a large answer, and a usual one whole."""

    def __init__(self, picks: Picks, bounds: Bounds = OF_A_CONTAINER, plain: int = PLAIN_BYTES) -> None:
        self._kept = bytearray()
        self._sieve = Sieve(picks, bounds)
        self._plain = plain
        self._is_large = False

    def feed(self, piece: bytes) -> None:
        """Take the next piece. Raise EngineFailed if even what is wanted is too much."""
        if self._is_large:
            self._sieve.feed(piece)
            return
        self._kept += piece
        if len(self._kept) > self._plain:
            self._is_large = True
            self._sieve.feed(bytes(self._kept))
            self._kept.clear()

    def answer(self) -> bytearray:
        """Return the answer, in JSON."""
        return self._sieve.text if self._is_large else self._kept


def listed_ids() -> Sifted:
    """Return an intake that keeps ids and states of a large list of containers, and a usual one whole."""
    return Sifted(lambda path: path[0] in ("Id", "State"), OF_A_LIST, PLAIN_LIST_BYTES)


class EachLine:
    """Hands over each line that is not too long, and keeps none."""

    def __init__(self, take: Callable[[bytes], object], longest: int) -> None:
        self._take = take
        self._lines = Lines(longest)

    def feed(self, piece: bytes) -> None:
        """Take the next piece."""
        for line in self._lines.feed(piece):
            if not isinstance(line, Torn):
                self._take(line)

    def answer(self) -> bytearray:
        """Return nothing."""
        return bytearray()
