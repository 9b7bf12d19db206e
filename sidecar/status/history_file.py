"""The file of the changes of grants, so that a daemon that starts knows the grants of the hour before.

A line for each change. Once it has grown, it is replaced by what of it is still needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from sidecar.status.grant_history import GrantChange
from sidecar.status.line_file import LineFile
from state import codec
from state.errors import StateError

NAME: Final = "history.jsonl"

VERSION: Final = 1

LIMIT: Final = 2 * 1024 * 1024
"""Bytes after which the file is replaced. A change has 150 bytes, without a long name or reason."""


class HistoryFile:
    """The file in a state directory. One writer."""

    def __init__(self, state_dir: str) -> None:
        self._directory = state_dir
        self._file = LineFile(state_dir, NAME, version=VERSION, limit=LIMIT, is_shared=True)

    def read(self) -> tuple[GrantChange, ...]:
        """Return the recorded changes, without a last line that was cut off. Raise StateError for anything else that is
        no change, and if it cannot be read.
        """
        if not os.path.lexists(self._directory):
            return ()
        try:
            return tuple(codec.decode(line, GrantChange) for line in self._file.read())
        except codec.UNREADABLE as error:
            raise StateError(f"{NAME} has a line that is no change of a grant: {error}") from error

    def append(self, changes: Sequence[GrantChange]) -> bool:
        """Add changes. Return whether the file has grown so long that it should be replaced. Raise StateError."""
        return self._file.append(map(codec.encode, changes))

    def replace(self, changes: Iterable[GrantChange]) -> None:
        """Make these the whole content. Raise StateError."""
        self._file.replace(map(codec.encode, changes))
