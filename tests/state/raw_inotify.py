"""The kernel's raw inotify, by ctypes: what a watcher of a directory really sees."""

from __future__ import annotations

import ctypes
import os
import struct
from types import TracebackType
from typing import Final, Self

IN_ALL_CHANGES: Final = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
_NAMES: Final = {
    0x2: "MODIFY",
    0x4: "ATTRIB",
    0x8: "CLOSE_WRITE",
    0x40: "MOVED_FROM",
    0x80: "MOVED_TO",
    0x100: "CREATE",
    0x200: "DELETE",
    0x400: "DELETE_SELF",
    0x800: "MOVE_SELF",
    0x4000: "Q_OVERFLOW",
    0x8000: "IGNORED",
}


class RawInotify:
    """Watches one directory for every change."""

    def __init__(self, directory: str | os.PathLike[str], mask: int = IN_ALL_CHANGES) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(directory), mask) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def events(self) -> list[str]:
        """Return the events since the last call: `["MOVED_TO status.json", ...]`."""
        try:
            content = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return []
        found, at = [], 0
        while at < len(content):
            _, mask, _, length = struct.unpack_from("iIII", content, at)
            name = content[at + 16 : at + 16 + length].rstrip(b"\0").decode()
            found.append(f"{_NAMES.get(mask & 0xFFFF, hex(mask))} {name}".strip())
            at += 16 + length
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        os.close(self.fd)
