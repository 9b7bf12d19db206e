"""The terminal, as a full screen: it is taken, drawn on, read from, and left as it was, whatever ends the block.

1. What is changed of a terminal is changed in `_take`, and all of it is undone in `_give`: the alternate screen, the
   cursor, line ends, the mouse, and echo.
2. The block ends by an exception on Ctrl-C, SIGTERM, SIGHUP and SIGQUIT: a terminal may hold up what is written to it
   for as long as it likes, and a flag would not be looked at meanwhile. The next escape ends a sequence that was cut
   off by it. Only the first of these signals counts: a terminal that is closed sends several.
3. Ctrl-Z leaves the terminal, stops, and takes it again when the program goes on, as SIGCONT does by itself: the shell
   may have changed everything.
4. A process that is killed by SIGKILL, or crashes, undoes nothing. A guard does it (`terminal_guard`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from sidecar.cli.top.cell_text import cells_of
from sidecar.cli.top.input_events import Event, read_events
from sidecar.cli.top.terminal_guard import LEAVE, TerminalGuard

_TAKE: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1000h\x1b[?1006h\x1b[0m\x1b[2J"

_ESCAPE_SECONDS: Final = 0.1
"""How long the rest of a sequence may take: over ssh its bytes may come apart."""

_AT_ONCE: Final = 65536

_GONE: Final = signal.SIGHUP
"""What it is that the terminal is gone, also where the kernel did not signal it."""

_ENDS: Final = (signal.SIGINT, signal.SIGTERM, _GONE, signal.SIGQUIT)


class SignalledEnd(BaseException):
    """A signal that ends the program: no code on the way may take it for its own."""

    def __init__(self, number: int) -> None:
        """Keep the signal."""
        super().__init__(number)
        self.number = number


class Terminal:
    """A terminal that was taken. `width` and `height` are what they were at the last `show` or `wait`."""

    def __init__(self, keyboard: int | None, page: int, encoding: str) -> None:
        """Use `page` for output, and `keyboard` for keys; None if stdin is no terminal."""
        self._keyboard, self._page, self._encoding = keyboard, page, encoding
        self._before: list[Any] | None = None
        self._shown: Sequence[str] | None = None
        self._rest = b""
        self._is_taken = False
        self._is_ending = False
        self._woken, self._wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._guard = TerminalGuard(page)
        self.size = os.terminal_size((0, 0))

    def look(self) -> os.terminal_size:
        """Return width and height as they are now. Another size draws everything again."""
        with contextlib.suppress(OSError):
            size = os.get_terminal_size(self._page)
            if not all(size):
                # A serial line does not know its size.
                size = shutil.get_terminal_size((80, 24))
            if size != self.size:
                self.size = size
                self._shown = None
        return self.size

    def redraw(self) -> None:
        """Have the next `show` write all lines: another program may have written on the screen."""
        self._shown = None

    def show(self, lines: Sequence[str]) -> None:
        """Bring these lines to the screen: only those that changed are written, in one write."""
        made = ["\x1b[0m\x1b[2J"] if self._shown is None else []
        before = [""] * len(lines) if self._shown is None else self._shown
        for row, line in enumerate(lines):
            if row >= len(before) or line != before[row]:
                # In the last cell of a line the cursor stands on what was written there.
                rest = "\x1b[K" if cells_of(line) < self.size[0] else ""
                made.append(f"\x1b[{row + 1};1H{line}\x1b[0m{rest}")
        made += [f"\x1b[{row + 1};1H\x1b[K" for row in range(len(lines), len(before))]
        # Before it is written: a signal that takes the screen again empties it.
        self._shown = tuple(lines)
        self._write("".join(made))

    def wait(self, seconds: float, also: Sequence[int] = ()) -> list[Event]:
        """Wait for keys, a signal, or one of the descriptors `also`, at most so long. Return the events."""
        if self._rest:
            seconds = min(seconds, _ESCAPE_SECONDS)
        keyboard = () if self._keyboard is None else (self._keyboard,)
        ready = select.select([*keyboard, self._woken, *also], [], [], max(0.0, seconds))[0]
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, _AT_ONCE)
        if self._keyboard is None or self._keyboard not in ready:
            events, self._rest = read_events(self._rest, is_all=True)
            return events
        sent = b""
        with contextlib.suppress(OSError):
            sent = os.read(self._keyboard, _AT_ONCE)
        if not sent:
            self.end(_GONE)
        events, self._rest = read_events(self._rest + sent)
        return events

    def open(self) -> None:
        """Take the terminal."""
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        self._take()

    def close(self) -> None:
        """Leave the terminal as it was before it was taken."""
        self._is_ending = True
        try:
            self._give()
        finally:
            signal.set_wakeup_fd(-1)
            os.close(self._woken)
            os.close(self._wakes)

    def end(self, number: int, _: FrameType | None = None) -> None:
        """End the block for this signal, unless it ends already (2)."""
        if not self._is_ending:
            self._is_ending = True
            raise KeyboardInterrupt if number == signal.SIGINT else SignalledEnd(number)

    def stop(self, number: int, _: FrameType | None) -> None:
        """Leave the terminal, stop as the default does, and take it again (3)."""
        if self._is_ending:
            return
        self._give()
        heeded = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, heeded)
        self._take()

    def go_on(self, *_: Any) -> None:
        """Take the terminal once more: it was stopped by another signal."""
        if self._is_taken and not self._is_ending:
            self._take(is_again=True)

    def _take(self, *, is_again: bool = False) -> None:
        """Change the terminal (1)."""
        if not is_again:
            self._guard.start()
        if self._keyboard is not None:
            self._set_keyboard(self._keyboard, is_again=is_again)
        self._is_taken = True
        self._shown = None
        self._write(_TAKE)

    def _set_keyboard(self, keyboard: int, *, is_again: bool) -> None:
        """Keep the settings, and read keys without a line and without echo."""
        while True:
            try:
                self._before = self._before if is_again else termios.tcgetattr(keyboard)
                tty.setcbreak(keyboard, termios.TCSADRAIN)
            except termios.error as error:
                if error.args[0] == errno.EINTR:
                    # In the background it was stopped for this, and goes on in the foreground.
                    continue
                self.end(_GONE)
            return

    def _give(self) -> None:
        """Undo all of it (1)."""
        if not self._is_taken:
            return
        self._is_taken = False
        # A terminal that was stopped by Ctrl-S would take nothing.
        with contextlib.suppress(termios.error, OSError):
            termios.tcflow(self._page, termios.TCOON)
        self._write(LEAVE)
        if self._keyboard is not None and self._before is not None:
            # From the background it is not stopped for this; what the mouse still sent is no input for the shell.
            heeded = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._keyboard, termios.TCSAFLUSH, self._before)
            signal.signal(signal.SIGTTOU, heeded)
        self._guard.end()

    def _write(self, text: str) -> None:
        left = text.encode(self._encoding, "replace")
        while left:
            try:
                left = left[os.write(self._page, left) :]
            except OSError:
                self.end(_GONE)
                return


@contextmanager
def taken_terminal() -> Iterator[Terminal]:
    """Yield the terminal as a full screen. Ctrl-C ends the block quietly, another signal the program, as by default."""
    keyboard = sys.stdin.fileno() if sys.stdin.isatty() else None
    sys.stdout.flush()
    sys.stderr.flush()
    terminal = Terminal(keyboard, sys.stdout.fileno(), sys.stdout.encoding or "ascii")
    heeded = {
        **dict.fromkeys(_ENDS, terminal.end),
        signal.SIGTSTP: terminal.stop,
        signal.SIGCONT: terminal.go_on,
        signal.SIGWINCH: _wake,
    }
    before = {number: signal.getsignal(number) for number in heeded}
    ended = 0
    try:
        for number, does in heeded.items():
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, does)
        try:
            terminal.open()
            yield terminal
        finally:
            terminal.close()
    except KeyboardInterrupt:
        pass
    except SignalledEnd as end:
        ended = end.number
    finally:
        for number, did in before.items():
            signal.signal(number, did)
    if ended:
        # The parent is to see what ended the program.
        signal.signal(ended, signal.SIG_DFL)
        os.kill(os.getpid(), ended)


def _wake(*_: Any) -> None:
    """Do nothing: the wait ends, and the size is looked at."""
