"""The file of the changes of grants, so that a daemon that starts knows the grants of the hour before.

A line for each change, appended at once and not synced: it is for people. Once it has grown, it is replaced by what of
it is still needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from sidecar.status.grant_history import GrantChange
from state import codec, files
from state.errors import StateError

NAME: Final = "history.jsonl"

VERSION: Final = 1

LIMIT: Final = 2 * 1024 * 1024
"""Bytes after which the file is replaced. A change has 150 bytes, without a long name or reason."""

_READABLE: Final = 64 * 1024 * 1024
"""Bytes that are read at the start: the file may have grown for as long as it could not be replaced."""

_MODE: Final = 0o600
_HEAD: Final = b'{"version":%d}\n' % VERSION
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class HistoryFile:
    """The file in a state directory. One writer."""

    def __init__(self, state_dir: str) -> None:
        self._directory = state_dir

    def read(self) -> tuple[GrantChange, ...]:
        """Return the recorded changes, without a last line that was cut off. Raise StateError for anything else that is
        no change, and if it cannot be read.
        """
        with files.directory(self._directory, create=True, mode=0o700) as at:
            return _changes_in(files.read_bounded(at, NAME, _READABLE))

    def append(self, changes: Sequence[GrantChange]) -> bool:
        """Add changes. Return whether the file has grown so long that it should be replaced. Raise StateError."""
        try:
            with files.directory(self._directory, create=True, mode=0o700) as at:
                opened = os.open(NAME, _FLAGS, _MODE, dir_fd=at)
                try:
                    size = os.fstat(opened).st_size
                    written = os.write(opened, _content(changes) if size else _HEAD + _content(changes))
                finally:
                    os.close(opened)
        except OSError as error:
            raise StateError(f"{NAME} cannot be written: {files.reason(error)}") from error
        return size + written > LIMIT

    def replace(self, changes: Iterable[GrantChange]) -> None:
        """Make these the whole content. Raise StateError."""
        with files.directory(self._directory, create=True, mode=0o700) as at:
            files.replace(at, NAME, _HEAD + _content(changes), mode=_MODE)


def read_history(state_dir: str) -> tuple[GrantChange, ...]:
    """Return what a daemon has recorded on this directory, for readers. Raise StateError as `HistoryFile.read` does."""
    with files.directory(state_dir) as at:
        return _changes_in(files.read_bounded(at, NAME, _READABLE))


def _changes_in(content: bytes | None) -> tuple[GrantChange, ...]:
    if content is None:
        return ()
    if not content.startswith(_HEAD):
        raise StateError(f"{NAME} is of another version")
    lines = content[len(_HEAD) :].split(b"\n")[:-1]
    try:
        return tuple(codec.decode(line, GrantChange) for line in lines)
    except codec.UNREADABLE as error:
        raise StateError(f"{NAME} has a line that is no change of a grant: {error}") from error


def _content(changes: Iterable[GrantChange]) -> bytes:
    return b"".join(codec.encode(each) + b"\n" for each in changes)
