"""A sieve for JSON: of one value, any number of bytes long, the wanted members, with their texts cut. Pure.

An engine's answer about one container holds whatever its author has written: a label of 40 MB, a million labels. What
is kept of it is bounded, and so is the work: a text costs one step whatever its length, what is not wanted costs no
steps, and of an object or a list only the first members are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from sidecar.failures import EngineFailed

LONGEST: Final = 64 * 1024
"""Bytes kept of one text: more than the longest path has in JSON, so a text that was cut is no path."""

_MARK: Final = re.compile(rb'["{}\[\],]')
_INSIDE: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_FLAT: Final = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+"|[^"{}\[\]]++)*+', re.DOTALL)
"""Texts and numbers of any count, without an object or a list."""

_ESCAPE: Final = 12
"""Bytes of the longest escape of one letter: a surrogate pair."""

_HALF: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
"""The first half of a surrogate pair."""

_CUT: Final = "…".encode()


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is read of one answer: members of one object or list, and marks and texts in all; and bytes kept."""

    members: int
    steps: int
    kept: int


OF_A_CONTAINER: Final = Bounds(members=4096, steps=500_000, kept=2 * 1024 * 1024)
"""An honest one has some hundreds of labels at most; one with 256 mounts has 10,000 marks and texts, in 0.2 MB."""

OF_A_LIST: Final = Bounds(members=1_000_000, steps=10_000_000, kept=64 * 1024 * 1024)
"""A usual container has a hundred marks and texts in the list."""

Picks = Callable[[tuple[str, ...]], bool]
"""Returns whether the member at this path is wanted. A list has no part in a path."""


class Sieve:
    """Takes an answer in pieces. `text` is what is kept: valid JSON if the answer was."""

    def __init__(self, picks: Picks, bounds: Bounds) -> None:
        self._picks = picks
        self._bounds = bounds
        self.text = bytearray()
        self.is_cut = False
        """Whether members of a wanted object or list were passed over, because there are too many."""
        self._path: list[str] = []
        self._open: list[_Open] = []
        self._string: bytearray | None = None
        self._had_backslash = False
        self._scalar = bytearray()
        self._steps = 0

    def feed(self, piece: bytes) -> None:
        """Take the next piece. Raise EngineFailed if the answer has more than is kept of any."""
        at = 0
        while at < len(piece):
            at = self._between(piece, at) if self._string is None else self._within(piece, at)
            if len(self.text) > self._bounds.kept or self._steps > self._bounds.steps:
                raise EngineFailed("the engine's answer has more parts than any container needs: it was not read")

    def _between(self, piece: bytes, at: int) -> int:
        """Read up to the next mark, and the mark. Return where it ends."""
        if self._open and not self._open[-1].is_read and (flat := _FLAT.match(piece, at)):
            at = flat.end()
        found = _MARK.search(piece, at)
        end = found.start() if found else len(piece)
        self._scalar += piece[at : min(end, at + LONGEST)]
        if found is None:
            del self._scalar[LONGEST:]
            return end
        self._steps += 1
        scalar = bytes(self._scalar).strip(b" \t\r\n:")
        self._scalar.clear()
        if scalar:
            self._value(scalar)
        match mark := found[0]:
            case b'"':
                self._string = bytearray()
            case b"{" | b"[":
                if is_kept := self._begin_value():
                    self.text += mark
                self._open.append(_Open(is_object=mark == b"{", is_kept=is_kept, depth=len(self._path)))
            case b"}" | b"]":
                self._close(mark)
            case _:
                self._next_member()
        return found.end()

    def _within(self, piece: bytes, at: int) -> int:
        """Read up to the end of the text, or of the piece. Return where it ends."""
        string = self._string
        assert string is not None
        start = at
        if self._had_backslash:
            # The letter that it escapes.
            self._had_backslash, at = False, at + 1
        found = _INSIDE.match(piece, at)
        end = found.end() if found else at
        string += piece[start : min(end, start + LONGEST + _ESCAPE)]
        if end == len(piece):
            del string[LONGEST + _ESCAPE :]
            return end
        if piece[end] == ord("\\"):
            # The last byte of the piece.
            string += b"\\"
            self._had_backslash = True
            return end + 1
        self._string = None
        self._text(_shortened(string))
        return end + 1

    def _text(self, raw: bytes) -> None:
        """Take a whole text: a key, or a value."""
        inside = self._open[-1] if self._open else None
        if inside is None or not inside.is_object or inside.has_key:
            self._value(b'"' + raw + b'"')
        elif inside.is_read:
            inside.has_key = True
            self._path.append(raw.decode("utf-8", "replace"))
            inside.picks_member = self._picks(tuple(self._path))
            if inside.picks_member:
                self.text += (b',"' if inside.has_kept else b'"') + raw + b'":'
                inside.has_kept = True

    def _value(self, raw: bytes) -> None:
        if self._begin_value():
            self.text += raw

    def _begin_value(self) -> bool:
        """Return whether the value that begins here is kept; in a list, separate it from the one before."""
        inside = self._open[-1] if self._open else None
        if inside is None:
            return True
        if inside.is_object:
            return inside.picks_member
        if inside.is_read:
            if inside.has_kept:
                self.text += b","
            inside.has_kept = True
        return inside.is_read

    def _close(self, mark: bytes) -> None:
        if not self._open:
            return
        ended = self._open.pop()
        del self._path[ended.depth :]
        if ended.is_kept:
            self.text += mark

    def _next_member(self) -> None:
        if not self._open:
            return
        inside = self._open[-1]
        del self._path[inside.depth :]
        inside.has_key = inside.picks_member = False
        inside.members += 1
        if inside.members >= self._bounds.members and inside.is_read:
            inside.is_read, self.is_cut = False, True


class _Open:
    """An object or a list that has begun. `depth` is the length of its own path; `is_read`: its members matter."""

    __slots__ = ("depth", "has_kept", "has_key", "is_kept", "is_object", "is_read", "members", "picks_member")

    def __init__(self, *, is_object: bool, is_kept: bool, depth: int) -> None:
        self.is_object = is_object
        self.is_kept = self.is_read = is_kept
        self.depth = depth
        self.members = 0
        self.has_kept = False
        self.has_key = False
        self.picks_member = False


def _shortened(raw: bytearray) -> bytes:
    """Return the inside of a text in JSON, cut to LONGEST bytes between two letters, with an ellipsis at the cut."""
    if len(raw) <= LONGEST:
        return bytes(raw)
    head = bytes(raw[: LONGEST - _ESCAPE])
    if (first := raw.find(b"\\", LONGEST - 2 * _ESCAPE, LONGEST - _ESCAPE)) >= 0:
        head = head[:first]
    head = _HALF.sub(b"", head)
    backslashes = len(head) - len(head.rstrip(b"\\"))
    head = head[: len(head) - backslashes % 2]
    return head.decode("utf-8", "ignore").encode() + _CUT
