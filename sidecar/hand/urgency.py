"""The priority of the thread that answers the kernel's events."""

from __future__ import annotations

import enum
import os
import threading
from contextlib import suppress
from typing import Final

_REAL_TIME: Final = 1
"""The lowest real-time priority: above all that is not real-time, below all that is."""

_NICE: Final = -15


class Urgency(enum.Enum):
    """What the scheduler lets a thread have."""

    REAL_TIME = enum.auto()
    RAISED = enum.auto()
    """A lower nice value."""
    ORDINARY = enum.auto()
    """Neither was permitted: CAP_SYS_NICE is missing."""


def hurry() -> Urgency:
    """Raise the priority of the calling thread as far as is permitted; its children do not inherit that."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(_REAL_TIME))
        return Urgency.REAL_TIME
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        return Urgency.RAISED
    return Urgency.ORDINARY


def of_thread(thread: int) -> Urgency:
    """Return what a thread of any process has. Raise OSError if it is gone."""
    if os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO:
        return Urgency.REAL_TIME
    return Urgency.RAISED if os.getpriority(os.PRIO_PROCESS, thread) <= _NICE else Urgency.ORDINARY
