"""Lines: a byte stream cut into lines, in bounded memory for any length of a line. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

HEAD: Final = 4096
"""Bytes kept from the beginning of an overlong line: an event's action and id are in the first few hundred."""

TAIL: Final = 256
"""Bytes kept from its end: an event's time is in the last hundred."""


class Torn(msgspec.Struct, frozen=True):
    """A line that was too long to keep: its beginning and its end."""

    head: bytes
    tail: bytes


class Lines:
    """Cuts a stream into lines. A line longer than `longest` bytes becomes `Torn`; its middle is not kept."""

    def __init__(self, longest: int) -> None:
        self._longest = max(longest, HEAD + TAIL)
        self._line = bytearray()
        self._head: bytes | None = None

    def feed(self, chunk: bytes) -> list[bytes | Torn]:
        """Return the lines that this chunk completes, without their line ends; empty lines are left out."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | Torn] = []
        for part in ended:
            self._take(part)
            if (line := self._whole()) is not None:
                lines.append(line)
        self._take(rest)
        return lines

    def _take(self, part: bytes) -> None:
        self._line += part
        if self._head is None and len(self._line) > self._longest:
            self._head = bytes(self._line[:HEAD])
        if self._head is not None:
            del self._line[:-TAIL]

    def _whole(self) -> bytes | Torn | None:
        line, head = bytes(self._line).rstrip(b"\r"), self._head
        self._line.clear()
        self._head = None
        if head is not None:
            return Torn(head, line)
        return line or None
