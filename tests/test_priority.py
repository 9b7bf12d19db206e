"""The priority of threads: preferred where that is permitted, and nothing that they begin is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from sidecar.priority import PREFERRED, is_preferred, prefer

T = TypeVar("T")


def in_a_thread(run: Callable[[], T]) -> T:
    """Return what this returns in a thread of its own."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


def nice() -> int:
    """Return the nice value of the calling thread."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def may_prefer() -> bool:
    """Return whether a thread may be preferred here, whose process has no priority of its own."""
    return nice() == 0 and in_a_thread(prefer)


def test_one_thread_is_preferred_and_nothing_that_it_begins() -> None:
    """Neither a thread, nor a command that people have configured."""
    if not may_prefer():
        pytest.skip("this needs CAP_SYS_NICE, and no nice value: make test as root")

    def begin() -> tuple[int, bool, int, int]:
        prefer()
        told = subprocess.run([sys.executable, "-c", "import os; print(os.nice(0))"], capture_output=True, check=True)
        return nice(), is_preferred(), in_a_thread(nice), int(told.stdout)

    assert in_a_thread(begin) == (PREFERRED, True, 0, 0)
    assert nice() == in_a_thread(nice)


def test_what_the_owner_chose_stands() -> None:
    """A process that was started with a nice value of its own keeps it."""

    def begin() -> tuple[bool, int]:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
        return prefer(), nice()

    assert in_a_thread(begin) == (False, 5)


def test_without_the_right_it_is_as_it_was() -> None:
    """No error."""
    script = "from sidecar.priority import prefer; import os; print(prefer(), os.nice(0))"
    words = [sys.executable, "-c", script]
    if os.geteuid() == 0:
        words = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs", *words]
    try:
        told = subprocess.run(words, capture_output=True, check=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no setpriv here: make test on Debian")
    assert told.stdout.split() == ["False", str(nice())]
