"""The priority of the threads that decide and that speak with the engine.

What a tenant does keeps the host's CPUs busy: the engine, its runtimes, its containers. The daemon needs a CPU for some
milliseconds, and waits for one at each hand-over from one thread to the other. So it goes before ordinary processes,
where that is permitted. What it costs the host is bounded by what it does, not by its priority.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Final

PREFERRED: Final = -10
"""The nice value: ten times the weight of an ordinary thread, and below the one that answers births."""


def prefer() -> bool:
    """Prefer the calling thread, and none that it makes later, nor a child. Return whether it is preferred.

    A priority that the owner of the host chose for the process stands.
    """
    thread = threading.get_native_id()
    with suppress(OSError):
        if os.getpriority(os.PRIO_PROCESS, thread) == 0:
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, thread, PREFERRED)
    return is_preferred()


def is_preferred() -> bool:
    """Return whether the calling thread goes before ordinary ones."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) < 0
