"""The lock that keeps a second sidecar off the same engine, whatever its state directory; and off the units of the
host, whatever its engine.

Two sidecars of one engine may share nothing but the engine and the kernel: each may run in a container with directories
of its own. Both see the root of the host's cgroup hierarchy, which they need to verify the containers' CPUs. So the
lock lies there, as a lock on one byte of that directory, and nothing is written:

1. The position of the byte is a hash of the engine's identity, so each engine has a lock of its own, and so have the
   units of the host.
2. The directory can be opened for reading alone, which permits read locks alone. So each sidecar sets a read lock and
   asks whether a write lock would be possible: not if another sidecar has set one. If two start at the same moment,
   both withdraw, and try again after pauses of different length.
3. It is an open-file lock (fcntl_locking(2), F_OFD_SETLK): the kernel drops it with the process, however it ends.
4. A lock of other bounds is none of ours: any user of the host may set one on that directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import random
import re
import struct
import time
from contextlib import suppress
from typing import Final

import msgspec

from sidecar.failures import AlreadyRunning
from sidecar.host.cgroup.host_kernel import find_hierarchy
from sidecar.host.cgroup.places import read

_FLOCK: Final = "hhqqi"
"""`struct flock` with its native alignment: type, whence, start, length, process."""

_TRIES: Final = 8
_PAUSE: Final = (0.02, 0.1)
"""Seconds between two tries, at random between these bounds: a predecessor may be about to end."""

_ID: Final = re.compile(rb"[0-9a-f]{64}")
_STATE_LOCK: Final = "/lock"
"""How the path of the lock on a state directory ends."""


HOST_UNITS: Final = "the units of this host"
"""In the place of an engine's identity, which has a path."""


class LockHolder(msgspec.Struct, frozen=True):
    """The sidecar that holds a lock, as far as it is visible here: its process (0 if it is not), the id of its
    container ("" if it is in none), and its state directory as it sees it itself ("" if unknown).
    """

    process: int = 0
    container: str = ""
    state_dir: str = ""


class EngineLock:
    """The locks of one sidecar on its engines. `close` frees them, and so does the end of the process."""

    def __init__(self, cgroup: str, proc: str = "/proc") -> None:
        hierarchy = find_hierarchy(cgroup)
        self._proc = proc
        self._opened = -1
        self._held: set[str] = set()
        if hierarchy is not None:
            with suppress(OSError):
                self._opened = os.open(hierarchy.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def hold(self, home: str) -> None:
        """Lock the engine with this identity until the end. Raise AlreadyRunning if another sidecar has done so.

        Without an identity, or without a visible hierarchy, nothing is locked.
        """
        if self._opened < 0 or not home or home in self._held:
            return
        for _ in range(_TRIES):
            self._set(fcntl.F_RDLCK, home)
            if not self._is_set_by_another(home):
                self._held.add(home)
                return
            self._set(fcntl.F_UNLCK, home)
            time.sleep(random.uniform(*_PAUSE))  # noqa: S311 - not for secrets
        other = whereabouts(self.holder(home))
        if home == HOST_UNITS:
            told = f"another sidecar confines the host's own processes{other}"
            raise AlreadyRunning(f'{told}: stop it first, or set host_units = "off"')
        raise AlreadyRunning(f"another sidecar manages this engine{other}: stop it first")

    def holder(self, home: str) -> LockHolder | None:
        """Return which other sidecar has locked the engine with this identity; None if none has."""
        if self._opened < 0 or not home or not self._is_set_by_another(home):
            return None
        return self._found(home)

    def close(self) -> None:
        """Free all locks. May be called twice."""
        if self._opened >= 0:
            os.close(self._opened)
            self._opened = -1

    def _set(self, kind: int, home: str) -> None:
        with suppress(OSError):
            fcntl.fcntl(self._opened, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, _place(home), 1, 0))

    def _is_set_by_another(self, home: str) -> bool:
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _place(home), 1, 0)
        try:
            kind, _, start, length, _ = struct.unpack(_FLOCK, fcntl.fcntl(self._opened, fcntl.F_OFD_GETLK, wanted))
        except OSError:
            return False
        # 4. Other bounds.
        return bool(kind != fcntl.F_UNLCK and (start, length) == (_place(home), 1))

    def _found(self, home: str) -> LockHolder:
        """Look for the process that has the lock among its open files (proc_pid_fdinfo(5))."""
        there = os.fstat(self._opened)
        on = b"%02x:%02x:%d" % (os.major(there.st_dev), os.minor(there.st_dev), there.st_ino)
        wanted = re.compile(rb"lock:.* OFDLCK .* %s %d %d\n" % (on, _place(home), _place(home)))
        for process in sorted(int(name) for name in os.listdir(self._proc) if name.isdigit()):
            if process == os.getpid():
                continue
            about = f"{self._proc}/{process}"
            with suppress(OSError):
                if any(wanted.search(read(f"{about}/fdinfo/{each}") or b"") for each in os.listdir(f"{about}/fd")):
                    inside = _ID.search(read(f"{about}/cgroup") or b"")
                    return LockHolder(process, inside[0].decode() if inside else "", _state_dir(about))
        return LockHolder()


def whereabouts(holder: LockHolder | None) -> str:
    """Return where a sidecar is, as the rest of a sentence."""
    if holder is None or not holder.process:
        return ", from a place that is not visible here (a container, or the host)"
    inside = f" in container {holder.container[:12]}" if holder.container else ""
    return f" (process {holder.process}{inside}{f', on {holder.state_dir}' if holder.state_dir else ''})"


def _place(home: str) -> int:
    """Return the position of the lock of an engine: 62 bits, which an offset can hold."""
    return int.from_bytes(hashlib.sha256(home.encode()).digest()[:8]) >> 2


def _state_dir(about: str) -> str:
    """Return the directory of the state lock that a process has open; "" if it has none."""
    for each in os.listdir(f"{about}/fd"):
        with suppress(OSError):
            path = os.readlink(f"{about}/fd/{each}")
            if path.endswith(_STATE_LOCK) and b"FLOCK" in (read(f"{about}/fdinfo/{each}") or b""):
                return path.removesuffix(_STATE_LOCK)
    return ""
