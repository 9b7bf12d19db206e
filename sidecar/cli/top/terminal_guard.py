"""A second process that leaves the terminal as it was, where the first one cannot: it was killed, or it crashed.

It waits on a pipe of which the first process has the other end. A word on it says that the terminal was left; if the
pipe ends without, the guard leaves it. It is in a session of its own, so that no key and no hangup of the terminal
reaches it, and it imports and allocates next to nothing: most of its memory is shared.
"""

from __future__ import annotations

import contextlib
import os
import signal
import termios
from typing import Any, Final

LEAVE: Final = "\x1b[?1006l\x1b[?1000l\x1b[?7h\x1b[0m\x1b[?25h\x1b[?1049l"

_LEFT: Final = b"."


class TerminalGuard:
    """The guard of the terminal at a descriptor, while it is taken. Where no process can be made, there is none."""

    def __init__(self, page: int) -> None:
        """Guard nothing yet."""
        self._page = page
        self._told = -1
        self._child = 0

    def start(self) -> None:
        """Keep how the terminal is set now, and guard it. The output was written: the new process has it, too."""
        try:
            before = termios.tcgetattr(self._page)
            heard, self._told = os.pipe2(os.O_CLOEXEC)
            self._child = os.fork()
        except (OSError, termios.error):
            return
        if not self._child:
            # Nothing of the first process may run here, whatever happens.
            with contextlib.suppress(BaseException):
                os.close(self._told)
                _stand_guard(heard, self._page, before)
            os._exit(0)
        os.close(heard)

    def end(self) -> None:
        """End the process: the terminal was left."""
        if self._told >= 0:
            with contextlib.suppress(OSError):
                os.write(self._told, _LEFT)
            os.close(self._told)
            self._told = -1
        if self._child:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._child, 0)
            self._child = 0


def _stand_guard(heard: int, page: int, before: list[Any]) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGWINCH, signal.SIGCONT):
        signal.signal(number, signal.SIG_DFL)
    if not os.read(heard, 1):
        os.write(page, LEAVE.encode())
        termios.tcsetattr(page, termios.TCSAFLUSH, before)
