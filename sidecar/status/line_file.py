"""A file of JSON lines in the state directory, for people: appended at once, not synced, and replaced when it is long.

It begins with a line `{"version":N}`. One writer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import Final

from sidecar.status.status_file import SHARED_MODE
from state import files
from state.errors import StateError

_READABLE: Final = 64 * 1024 * 1024
"""Bytes that are read: the file may have grown for as long as it could not be replaced."""

_MODE: Final = 0o600
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class LineFile:
    """The file of this name and version. It should be replaced once it has more than `limit` bytes. If `is_shared`, a
    group that may enter the directory may read it.
    """

    def __init__(self, state_dir: str, name: str, *, version: int, limit: int, is_shared: bool = False) -> None:
        self._directory = state_dir
        self._name = name
        self._head = b'{"version":%d}\n' % version
        self._limit = limit
        self._is_shared = is_shared
        self._is_seen = False

    def read(self) -> list[bytes]:
        """Return the lines, without a last one that was cut off. Raise StateError if it cannot be read."""
        with files.directory(self._directory) as at:
            content = files.read_bounded(at, self._name, _READABLE)
        if content is None:
            return []
        if not content.startswith(self._head):
            raise StateError(f"{self._name} is of another version")
        return content[len(self._head) :].split(b"\n")[:-1]

    def append(self, lines: Iterable[bytes]) -> bool:
        """Add lines. Return whether the file should be replaced: it has grown long, or is of a time when the group was
        not to read it. Raise StateError.
        """
        try:
            with files.directory(self._directory, create=True, mode=0o700) as at:
                opened = os.open(self._name, _FLAGS, self._mode(at), dir_fd=at)
                try:
                    known = os.fstat(opened)
                    size, is_closed = known.st_size, bool(self._mode(at) & ~known.st_mode) and not self._is_seen
                    written = os.write(opened, _content(lines) if size else self._head + _content(lines))
                finally:
                    os.close(opened)
        except OSError as error:
            raise StateError(f"{self._name} cannot be written: {files.reason(error)}") from error
        # Once: on a file system without modes it would be closed for ever.
        self._is_seen = True
        return is_closed or size + written > self._limit

    def replace(self, lines: Iterable[bytes]) -> None:
        """Make these the whole content. Raise StateError."""
        with files.directory(self._directory, create=True, mode=0o700) as at:
            files.replace(at, self._name, self._head + _content(lines), mode=self._mode(at))

    def _mode(self, at: int) -> int:
        is_open = self._is_shared and stat.S_IMODE(os.fstat(at).st_mode) == SHARED_MODE
        return _MODE | (0o040 if is_open else 0)


def _content(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)
