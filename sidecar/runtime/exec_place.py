"""Where a process begins that joins a container which runs, as `exec` and health checks do.

1. The daemon keeps a file for each container in which such processes keep off some of its CPUs: these, as a list.
2. This program keeps off them, and so does the runtime that takes its place: the kernel cuts that to the container's
   CPUs as the process joins it, and takes it for all of them if none is left (since Linux 6.2).
3. Later runtimes (runc 1.3, crun 1.19) forget what they inherit and go by the process's own `execCPUAffinity`, so it is
   written there as well. As `initial`: a `final` that the container has no more fails the call.

Whatever is not understood leaves the call as it came, and so does a process that says itself where it begins. It runs
under any Python from 3.9 on.
"""

from __future__ import annotations

import os
import stat

from . import standing
from .bundle import MOST_BYTES, StartRefused, dumped, loaded, replace

FIRST = frozenset(("log", "log-format", "log-level", "root", "criu", "rootless", "cgroup-manager"))
"""Options of runc and crun before the command that are followed by a separate value."""

KEY = "execCPUAffinity"
POSSIBLE = "/sys/devices/system/cpu/possible"


class ExecCall:
    """A call of `exec`: the container, and the file that describes the process; "" for what it does not name."""

    def __init__(self, words: list[str]) -> None:
        self.container = self.process = ""
        rest = iter(words)
        for word in rest:
            if not word.startswith("-"):
                if word != "exec":
                    return
                break
            if (word[2:] if word.startswith("--") else word[1:]) in FIRST:
                next(rest, "")
        for word in rest:
            if is_id(word):
                self.container = word
                return
            name, is_given, value = word.lstrip("-").partition("=")
            if word.startswith("-") and name in ("process", "p"):
                self.process = value if is_given else next(rest, self.process)


def is_id(word: str) -> bool:
    """Return whether this is the whole id of a container."""
    return len(word) == 64 and not word.strip("0123456789abcdef")


def place(folder: str, call: ExecCall) -> None:
    """Have the process of this call begin where its container's file says."""
    if not call.container:
        return
    try:
        allowed = standing.cpus_of(standing.read(POSSIBLE)) - avoided(folder, call.container)
        if not allowed:
            return
        if call.process:
            path = os.path.realpath(call.process)
            with open(path, "rb", buffering=0) as file:
                content = file.read(MOST_BYTES + 1)
            replace(path, placed(content, standing.listed(allowed)))
        os.sched_setaffinity(0, allowed)
    except (OSError, ValueError, StartRefused):
        # It begins as the engine has it.
        pass


def avoided(folder: str, container: str) -> set[int]:
    """Return the CPUs that this container's file names. Raise OSError or ValueError if there is none that counts."""
    opened = os.open(f"{folder}/{container}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(opened)
        if not (stat.S_ISREG(found.st_mode) and standing.is_private(found) and standing.is_private(os.stat(folder))):
            raise ValueError("others can write it")
        content = os.read(opened, standing.MOST_BYTES)
    finally:
        os.close(opened)
    if not (cpus := standing.cpus_of(content.decode("ascii"))):
        raise ValueError("there is nothing in it")
    return cpus


def placed(content: bytes, allowed: str) -> bytes:
    """Return the description of a process that begins on these CPUs. Raise StartRefused if it says so itself, or cannot
    be understood.
    """
    process = loaded(content)
    if KEY in process:
        raise StartRefused("the process says itself where it begins")
    process[KEY] = {"initial": allowed}
    return dumped(process)
