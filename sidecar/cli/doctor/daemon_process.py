"""The process of the daemon, as it is visible here: what it may do is asked of itself, not of this command."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final, NamedTuple

from sidecar.commit.state_lock import NAME
from sidecar.hand.reflex_queue import Library, find_library
from sidecar.hand.urgency import Urgency, of_thread
from sidecar.host.cgroup.places import read

DAC_OVERRIDE: Final = 1
SYS_NICE: Final = 23
"""Their numbers in capabilities(7)."""


class AskedProcess(NamedTuple):
    """The process whose rights are told: the daemon's, or this command's for want of it."""

    proc: str = "/proc/self"
    daemon: int = 0
    """The daemon's process; 0 if it is this command's."""
    is_running: bool = False
    """Whether a daemon runs, perhaps where it cannot be seen."""

    @property
    def told(self) -> str:
        """Of which one it is spoken, for the end of a sentence."""
        if self.daemon:
            return f"(the daemon: process {self.daemon})"
        why = "the daemon's process is not visible here" if self.is_running else "no daemon runs"
        return f"(with the rights of this command: {why})"

    @property
    def root(self) -> str:
        """Where the files are that it sees, "" for this command's."""
        return f"{self.proc}/root" if self.daemon else ""

    @property
    def user(self) -> int:
        """Its user."""
        with suppress(OSError):
            return os.stat(self.proc).st_uid
        return os.geteuid()

    def capabilities(self) -> int:
        """Return its effective capabilities, as a mask; all if that cannot be read."""
        for line in (read(f"{self.proc}/status") or b"").splitlines():
            if line.startswith(b"CapEff:"):
                return int(line.split()[1], 16)
        return -1

    def may(self, capability: int) -> bool:
        """Return whether it has this capability."""
        return bool(self.capabilities() >> capability & 1)

    def urgency(self) -> Urgency | None:
        """Return the highest priority of a thread of the daemon; None if none has what it may have, because none
        answers births now.
        """
        found: list[Urgency] = []
        with suppress(OSError):
            for thread in os.listdir(f"{self.proc}/task"):
                with suppress(OSError):
                    found.append(of_thread(int(thread)))
        for each in (Urgency.REAL_TIME, Urgency.RAISED):
            if each in found:
                return each
        return None if self.may(SYS_NICE) else Urgency.ORDINARY

    def library(self) -> Library:
        """Return the compiled reflex that it has loaded; for this command that which is installed here."""
        here = find_library()
        maps = _text(f"{self.proc}/maps") if self.daemon else ""
        if maps and not any(os.path.basename(line).startswith("reflex") for line in maps.splitlines()):
            return Library(None, is_there=here.is_there)
        return here


def find_daemon(state_dir: str, *, is_running: bool, proc: str = "/proc") -> AskedProcess:
    """Return the process that holds the lock on this directory, whatever its number is where it runs itself; this
    command's if no daemon runs, or if it is not visible.
    """
    if is_running:
        with suppress(OSError):
            wanted = os.stat(os.path.join(state_dir, NAME), follow_symlinks=False)
            for process in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
                with suppress(OSError):
                    if _holds(f"{proc}/{process}", wanted):
                        return AskedProcess(f"{proc}/{process}", process, is_running=True)
    return AskedProcess(is_running=is_running)


def _holds(about: str, wanted: os.stat_result) -> bool:
    """Return whether a process has this file open and locked for itself alone (proc_pid_fdinfo(5)). Commands that ask
    for a daemon share the lock for an instant.
    """
    for each in os.listdir(f"{about}/fd"):
        with suppress(OSError):
            if not os.readlink(at := f"{about}/fd/{each}").endswith(f"/{NAME}"):
                continue
            found = os.stat(at)
            is_same = (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
            locks = (read(f"{about}/fdinfo/{each}") or b"").splitlines()
            if is_same and any(b"FLOCK" in line and b"WRITE" in line for line in locks):
                return True
    return False


def _text(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
    return ""
