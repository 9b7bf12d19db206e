"""What watches a daemon beside a test: samples in a thread of its own, of projections that are read again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from state import codec
from state.projection import STATUS, Projection


class Sampler:
    """Calls `sample` every `pause` seconds from `start` to `stop`."""

    def __init__(self, name: str, pause: float) -> None:
        self._every = pause
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; may be called twice. Raises the error of a sample that broke."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._error is not None:
            raise self._error

    def sample(self) -> None:
        """Look once."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            while not self._is_over.wait(self._every):
                self.sample()
        except BaseException as error:
            self._error = error
            raise


class ToldFiles:
    """The projections by id below a directory. `on_half` is told of a file that cannot be decoded."""

    def __init__(self, projections: Path, on_half: Callable[[str], None] = lambda _: None) -> None:
        self.by_id = projections / "by-id"
        self._on_half = on_half
        self._known: dict[str, tuple[bytes, Projection | None]] = {}

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
