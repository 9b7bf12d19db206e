"""A file that fronts take without asking, under a shared lock on it (`runtime/standing`), and its locks on older ones.

1. The next content takes the place of the last one by a rename, and is not synced.
2. A replaced file is kept open as long as a container may start by it: until it can be locked exclusively.
3. If it cannot be written, it is removed; if it cannot even be removed, it counts as held until it can be replaced.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from state import files

T = TypeVar("T")

_MODE: Final = 0o600
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Replaced(Generic[T]):
    """A file that has no place any more, and may still be held; `opened` is -1 if it could not be replaced."""

    def __init__(self, opened: int, said: T) -> None:
        self.opened = opened
        self.said = said

    def is_held(self) -> bool:
        """Return whether a start holds it. If not, it is closed."""
        if self.opened < 0:
            return True
        try:
            fcntl.flock(self.opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        os.close(self.opened)
        return False


class StandingFile(Generic[T]):
    """The file of this name, in this folder; `read` tells what a content says. Nothing here waits."""

    def __init__(self, folder: str, name: str, read: Callable[[bytes], T], most: int) -> None:
        self._folder = folder
        self._name = name
        self._read = read
        self._most = most
        self._replaced: list[Replaced[T]] = []

    def last(self) -> T | None:
        """Return what the file says; None if there is none."""
        found = self._present()
        if found is None:
            return None
        os.close(found.opened)
        return found.said

    def put(self, content: bytes | None) -> None:
        """Put a content in the place of the last one, or nothing. Raise StateError if that cannot be."""
        before = self._present()
        try:
            with files.directory(self._folder) as at:
                if content is None:
                    files.remove(at, self._name)
                else:
                    files.replace(at, self._name, content, sync=False, mode=_MODE)
        except Exception:
            if before is not None:
                self._take_away(before)
            raise
        # One that could not be replaced before is the one that is replaced now.
        self._replaced = [each for each in self._replaced if each.opened >= 0]
        if before is not None:
            self._replaced.append(before)

    def held(self) -> list[T]:
        """Return what the replaced files say by which a container may still start."""
        self._replaced = [each for each in self._replaced if each.is_held()]
        return [each.said for each in self._replaced]

    def close(self) -> None:
        """Let go of what was replaced. The file stays: containers start by it while no daemon runs."""
        for each in self._replaced:
            if each.opened >= 0:
                os.close(each.opened)
        self._replaced = []

    def _present(self) -> Replaced[T] | None:
        try:
            opened = os.open(f"{self._folder}/{self._name}", _READ)
        except OSError:
            return None
        return Replaced(opened, self._read(os.pread(opened, self._most, 0)))

    def _take_away(self, before: Replaced[T]) -> None:
        """Remove a file that could not be replaced (3)."""
        try:
            os.unlink(f"{self._folder}/{self._name}")
        except FileNotFoundError:
            pass
        except OSError:
            if before.opened >= 0:
                os.close(before.opened)
            before.opened = -1
        self._replaced.append(before)
