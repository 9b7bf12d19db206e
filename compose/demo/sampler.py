"""A thread that takes samples, from a start to a stop; and what they read of each thread of this host."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

_STATE: Final = 0
_PROCESSOR: Final = 36
"""Fields 3 and 39 of /proc/PID/stat (proc(5)), counted from behind the program's name."""


def on_cpu(stat: str) -> tuple[int, str] | None:
    """Return the CPU and the name of a thread that runs or is ready to run, from its stat; None if it sleeps."""
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    return (int(fields[_PROCESSOR]), head.partition("(")[2]) if fields[_STATE] == "R" else None


class Sampler:
    """Calls `sample` after each pause of some seconds, in a thread of its own. It starts once."""

    def __init__(self, pause_seconds: float, sample: Callable[[], None]) -> None:
        self._pause_seconds = pause_seconds
        self._sample = sample
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: Exception | None = None

    def start(self) -> None:
        """Begin sampling."""
        self._thread.start()

    def stop(self) -> None:
        """End sampling, after a sample that is under way. No error if it was not started, or has ended. Raise the error
        of a sample that failed: none was taken after it.
        """
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._ending.wait(self._pause_seconds):
                self._sample()
        except Exception as error:
            self._error = error
