"""The watcher's thread: it waits for events of the kernel, and has them answered. It knows no trio.

The wait is a poll, the one call that gives up the interpreter's lock. `Hearing` does the rest.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

from sidecar.hand.run_delay import RunDelay
from sidecar.hand.urgency import Urgency, hurry

Hearing = Callable[[float], float | None]
"""Answers what is pending now, and may be for so many seconds already: what its thread has waited for a CPU. Returns in
how many seconds it is due again without an event, None: not before one.
"""


class Watcher:
    """Runs `hear` in a thread whenever `fd` is readable; `ended` is called at the end of the thread if an error ended
    it.
    """

    def __init__(self, fd: int, hear: Hearing, ended: Callable[[Exception], None]) -> None:
        self._fd = fd
        self._hear = hear
        self._ended = ended
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="hand", daemon=True)
        self._began = threading.Event()
        self.urgency = Urgency.ORDINARY

    def start(self) -> None:
        """Begin, and return when `urgency` is known."""
        self._thread.start()
        self._began.wait()

    def close(self) -> None:
        """End the thread. May be called twice."""
        if self._stop >= 0:
            os.eventfd_write(self._stop, 1)
            self._thread.join()
            os.close(self._stop)
            self._stop = -1

    def wake(self) -> None:
        """Have it hear once without an event: something has become due earlier than it was told."""
        os.eventfd_write(self._stop, 2)

    def _run(self) -> None:
        self.urgency = hurry()
        self._began.set()
        waiting = select.poll()
        waiting.register(self._fd, select.POLLIN)
        waiting.register(self._stop, select.POLLIN)
        delay = RunDelay()
        try:
            pause = self._hear(0.0)
            while True:
                before = delay.seconds()
                ready = waiting.poll(None if pause is None else pause * 1000)
                if any(fd == self._stop for fd, _ in ready) and os.eventfd_read(self._stop) % 2:
                    return
                pause = self._hear(delay.seconds() - before)
        except Exception as error:
            self._ended(error)
        finally:
            delay.close()
