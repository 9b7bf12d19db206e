"""Silence: an engine that hangs keeps its event stream open, and sends nothing. What asks it finds out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from sidecar.failures import EngineUnavailable


class Silence:
    """Ends the following of one engine's event stream when a question got no answer."""

    def __init__(self) -> None:
        self._following: trio.CancelScope | None = None
        self._found: EngineUnavailable | None = None

    @contextmanager
    def while_answered(self) -> Iterator[None]:
        """Leave the block when the engine is given up. Raise EngineUnavailable with the reason."""
        self._found = None
        try:
            with trio.CancelScope() as self._following:
                yield
        finally:
            self._following = None
        if self._found is not None:
            raise self._found

    def give_up(self, error: EngineUnavailable) -> None:
        """Make the follower of the stream reconnect."""
        if self._following is not None:
            self._found = error
            self._following.cancel()
