"""The copy of a file of the host as it was before our first change, kept beside it, and put back by the removal.

1. A copy is made before a change, and never overwritten. Where there was no file, the copy says so.
2. While the file is as we wrote it, further changes of ours make no copy: the first one has the original content. If
   another program changed the file since, that content is kept too, under the next number.
3. The removal that returns to the settings of the newest copy puts its content back, byte for byte, and deletes it. If
   another program changed the file, the copy stays, and the caller says so.
"""

from __future__ import annotations

import itertools
import os
from typing import Final

import msgspec

from state import files

SUFFIX: Final = ".before-cpuset-sidecar"

ABSENT: Final = b"There was no such file before.\n"
"""The copy of a file that did not exist. It is no JSON, hence no file that we change."""

_LIMIT: Final = 1024 * 1024


class FileAccess(msgspec.Struct, frozen=True):
    """The mode of a file, and its user and group; None for those of the process that writes it."""

    mode: int = 0o644
    owner: tuple[int, int] | None = None


class KeptCopy(msgspec.Struct, frozen=True):
    """The newest copy: its name, and its content, None if there was no file."""

    name: str
    content: bytes | None


def newest_copy(at: int, name: str) -> KeptCopy | None:
    """Return the newest copy of a file in an open directory; None if there is none. Raise FileUnreadable."""
    newest = None
    for copy in _names(name):
        content = files.read_bounded(at, copy, _LIMIT)
        if content is None:
            break
        newest = KeptCopy(copy, None if content == ABSENT else content)
    return newest


def keep_copy(at: int, name: str, content: bytes | None, access: FileAccess) -> str:
    """Write a copy under the first free name, synced, and return that name. Raise FileUnwritable."""
    free = next(copy for copy in _names(name) if files.read_bounded(at, copy, _LIMIT) is None)
    files.replace(at, free, ABSENT if content is None else content, sync=True, mode=access.mode, owner=access.owner)
    return free


def put_back(at: int, name: str, copy: KeptCopy, access: FileAccess) -> None:
    """Give a file the content of its copy, and delete the copy. Raise FileUnwritable."""
    if copy.content is None:
        files.remove(at, name)
    else:
        files.replace(at, name, copy.content, sync=True, mode=access.mode, owner=access.owner)
    files.remove(at, os.path.basename(copy.name))


def _names(name: str) -> itertools.chain[str]:
    """Return the names that copies may have, in order."""
    return itertools.chain((name + SUFFIX,), (f"{name}{SUFFIX}.{number}" for number in itertools.count(2)))
