"""Projections that are read again and again beside a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from state import codec
from state.projection import STATUS, Projection


class ToldFiles:
    """The projections by id below a directory. `on_half` is told of a file that cannot be decoded."""

    def __init__(self, projections: Path, on_half: Callable[[str], None] = lambda _: None) -> None:
        self.by_id = projections / "by-id"
        self._on_half = on_half
        self._known: dict[str, tuple[bytes, Projection | None]] = {}
        # Each reader decodes in a thread of its own. msgspec makes the table of a type at its first use, and a thread
        # that meets half a table crashes (Python 3.13): so it is made here, before the thread begins.
        msgspec.json.Decoder(Projection)

    def read(self, id: str) -> Projection | None:
        """Return a container's projection now; the very same object as long as the file is the same."""
        short = id[:12]
        try:
            content = (self.by_id / short / STATUS).read_bytes()
        except OSError:
            return None
        if short not in self._known or self._known[short][0] != content:
            self._known[short] = content, self._decoded(short, content)
        return self._known[short][1]

    def _decoded(self, short: str, content: bytes) -> Projection | None:
        try:
            return codec.decode(content, Projection)
        except msgspec.MsgspecError as error:
            self._on_half(f"half a file for {short}: {error}")
            return None
