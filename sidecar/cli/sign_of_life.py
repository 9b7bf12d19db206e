"""That a command lives: on a terminal, what it is doing and for how long, once that takes more than a second.

1. It stands on a line of its own on stderr, and goes before anything else is printed: `sys.stdout` and `sys.stderr` are
   replaced meanwhile by streams that see to it. Behind a line that is not ended yet there is none.
2. In a pipe there is none. A terminal that cannot erase (`TERM=dumb`) gets one line, once.
3. Nothing is imported for it that a short command does not need, and nothing where there is no terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO

FIRST_SECONDS: Final = 1.0
"""Until it is shown: a shorter wait needs no word."""

AGAIN_SECONDS: Final = 0.5
"""Between two times that it is written."""

_ERASE: Final = "\r\x1b[K"


@contextmanager
def sign_of_life(what: str) -> Iterator[None]:
    """Show that `what` goes on while the block runs; "" for nothing. What the block raises is raised."""
    if not what or not sys.stderr.isatty():
        yield
        return
    import threading

    sign = _Sign(what, sys.stderr, threading.Lock())
    is_over = threading.Event()

    def show() -> None:
        pause = FIRST_SECONDS
        while not is_over.wait(pause) and sign.show():
            pause = AGAIN_SECONDS

    # A daemon: a command that ends in an unforeseen way does not wait for it.
    shower = threading.Thread(target=show, name="sign-of-life", daemon=True)
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _Beside(out, sign), _Beside(err, sign)
    shower.start()
    try:
        yield
    finally:
        is_over.set()
        shower.join()
        sign.hide()
        sys.stdout, sys.stderr = out, err


class _Sign:
    """The line. `lock` is held by the one that writes to the terminal."""

    def __init__(self, what: str, terminal: TextIO, lock: Any) -> None:
        self._what = what
        self._terminal = terminal
        self._began = time.monotonic()
        self._can_erase = os.environ.get("TERM", "dumb") != "dumb"
        self._is_shown = False
        self.lock = lock
        self.is_line_open = False
        """Whether the last line that was printed has no end yet."""

    def show(self) -> bool:
        """Write it, with the seconds that it took so far. Return whether it is to be written again."""
        with self.lock:
            if self.is_line_open:
                return True
            if not self._can_erase:
                self._write(f"{self._what} ...\n")
                return False
            said = f"{self._what}, {time.monotonic() - self._began:.0f} s"
            # One that wraps could not be erased.
            self._write(_ERASE + said[: shutil.get_terminal_size((80, 24)).columns - 1])
            self._is_shown = True
        return True

    def hide(self) -> None:
        """Erase it."""
        with self.lock:
            self.erase()

    def erase(self) -> None:
        """Erase it; the lock is held."""
        if self._is_shown:
            self._is_shown = False
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        try:
            self._terminal.write(text)
            self._terminal.flush()
        except OSError:
            # A terminal that is gone is none: the command goes on.
            self._is_shown = False


class _Beside:
    """A stream before which the sign goes."""

    def __init__(self, stream: TextIO, sign: _Sign) -> None:
        self._stream = stream
        self._sign = sign

    def write(self, text: str) -> int:
        """Erase the sign, and write."""
        with self._sign.lock:
            self._sign.erase()
            count = self._stream.write(text)
            if text and self._stream.isatty():
                self._sign.is_line_open = not text.endswith("\n")
                self._stream.flush()
        return count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
