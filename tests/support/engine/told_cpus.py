"""ToldCpus: ears for CPUs of a host that a test plays. They are readable when the test says that CPUs came or went."""

from __future__ import annotations

import socket
from contextlib import suppress


class ToldCpus:
    """Satisfies the port `CpuEars`, by a real socket: trio's clock stands still while there is something to hear."""

    def __init__(self) -> None:
        self._mouth, self._ear = socket.socketpair()
        self._ear.settimeout(0)
        self.is_broken = False

    def tell(self) -> None:
        """Say that something happened."""
        self._mouth.send(b"!")

    @property
    def fd(self) -> int:
        """Readable when something was said."""
        return self._ear.fileno()

    def drain(self) -> None:
        """Take all that was said. Raise OSError if a test has broken it."""
        with suppress(BlockingIOError):
            self._ear.recv(4096)
        if self.is_broken:
            raise OSError("broken")

    def close(self) -> None:
        """Hear nothing any more."""
        self._mouth.close()
        self._ear.close()
