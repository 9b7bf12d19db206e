"""Walks of groups inside a group, whatever a tenant has nested there: not recursive, by descriptors, and bounded.

A tenant chooses how deep its groups are, and how long their names: a walk that calls itself ends with Python's stack,
and a path from the outermost group with PATH_MAX. So one descriptor moves: down by a name, up by `..`, which is the
same group as before, since the kernel moves no group into another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

MOST_GROUPS: Final = 10_000
"""Groups inside one container that one walk reads: some tenths of a second."""

_PROCESSES_BYTES: Final = 64 * 1024
"""Of one group's list."""

_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _opened(above: int, name: bytes) -> int:
    return os.open(name, _LISTED, dir_fd=above)


class Descent:
    """A place in a tree of groups: `fd` is the open directory there. `open` and `shut` make and end descriptors."""

    __slots__ = ("_open", "_shut", "fd")

    def __init__(
        self,
        outermost: int,
        opened: Callable[[int, bytes], int] = _opened,
        shut: Callable[[int], None] = os.close,
    ) -> None:
        """Begin at an open directory, which stays the caller's. Raise OSError."""
        self._open = opened
        self._shut = shut
        self.fd = opened(outermost, b".")

    def down(self, name: bytes) -> None:
        """Go into the group of this name. Raise OSError: the place is the same then."""
        self._go(name)

    def up(self) -> None:
        """Go to the group above. Raise OSError: then the way back is lost, and the walk is over."""
        self._go(b"..")

    def close(self) -> None:
        """Close the descriptor."""
        self._shut(self.fd)

    def _go(self, name: bytes) -> None:
        found = self._open(self.fd, name)
        self._shut(self.fd)
        self.fd = found


def processes_below(directory: str) -> tuple[set[int], bool]:
    """Return the processes in a group and in those inside it, as far as they are visible; and whether these are all
    that are visible: not if there are more than `MOST_GROUPS`.
    """
    found: set[int] = set()
    try:
        top = os.open(directory, _LISTED)
    except OSError:
        return found, True
    try:
        at = Descent(top)
    finally:
        os.close(top)
    try:
        return found, _walk(at, found)
    except OSError:
        return found, False
    finally:
        at.close()


def _walk(at: Descent, found: set[int]) -> bool:
    seen, inside = 1, [_entered(at, found)]
    while inside:
        if not inside[-1]:
            inside.pop()
            if inside:
                at.up()
            continue
        if seen >= MOST_GROUPS:
            return False
        with suppress(FileNotFoundError):
            # It may be gone.
            at.down(inside[-1].pop())
            seen += 1
            inside.append(_entered(at, found))
    return True


def _entered(at: Descent, found: set[int]) -> list[bytes]:
    """Take up the processes of the group where the walk is; return the names of those inside it."""
    # What this process cannot see is left out on v1, and 0 on v2.
    found.update(int(text) for text in _processes(at.fd).split() if text != b"0")
    with suppress(OSError), os.scandir(at.fd) as entries:
        return [os.fsencode(each.name) for each in entries if each.is_dir(follow_symlinks=False)]
    return []


def _processes(group: int) -> bytes:
    with suppress(OSError):
        fd = os.open("cgroup.procs", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=group)
        try:
            return os.read(fd, _PROCESSES_BYTES)
        finally:
            os.close(fd)
    return b""
