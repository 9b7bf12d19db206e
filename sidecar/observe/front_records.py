"""The fronts before engines' own runtimes that are recorded on this host: whether one came, or was taken away.

`install-runtime` writes a record before an engine is told of a front, and removes it after all engines were told that
it is gone (`host/install/fronts`): in `/etc`, and in the state directory, which a daemon in a container sees as well. A
front that is passing asks no sidecar, and counts as gone. A daemon that sees neither knows of fronts by their questions
alone, and by what they wrote down.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from sidecar.beat import beat
from sidecar.board import Board
from state import codec, files
from state.errors import StateError

FRONTS: Final = "/etc/cpuset-sidecar/fronts"
"""A folder for each engine, with a record for each front. At another prefix they are not looked for."""

TOLD: Final = "fronts"
"""The folder below the state directory, with the same records."""

LOOK_SECONDS: Final = 5.0
"""Between two looks. One costs a stat for each folder as long as nothing changes."""

_ENGINES: Final = ("docker", "podman")
_RECORD: Final = ".json"
_LIMIT: Final = 256 * 1024

Front = tuple[str, str]
"""An engine, and the name of the runtime under which it calls the front."""

Recorded = tuple[frozenset[Front], frozenset[Front]]
"""The fronts that ask, and those that pass everything on."""


class _Record(msgspec.Struct, frozen=True):
    name: str
    passing_since: str = ""


async def watch_fronts(board: Board, folders: Sequence[str]) -> None:
    """Show on the board which fronts are recorded in these folders, until cancelled."""
    shown: tuple[int, ...] | None = None
    while True:
        # Records are moved into place, and removed: both change the time of their folder.
        found = tuple(_changed_at(os.path.join(folder, engine)) for folder in folders for engine in _ENGINES)
        if found != shown:
            board.tell_fronts(*recorded(folders))
            shown = found
        await beat(LOOK_SECONDS)


def recorded(folders: Sequence[str]) -> Recorded:
    """Return the fronts that are recorded in any of these folders. What cannot be read, or understood, is none."""
    found = [
        ((engine, record.name), record.passing_since)
        for folder in folders
        for engine in _ENGINES
        for record in _records(os.path.join(folder, engine))
    ]
    asking = frozenset(front for front, since in found if not since)
    return asking, frozenset(front for front, since in found if since) - asking


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _records(folder: str) -> Iterator[_Record]:
    try:
        with files.directory(folder) as at:
            for name in os.listdir(folder):
                if name.endswith(_RECORD):
                    yield codec.decode(files.read_bounded(at, name, _LIMIT) or b"", _Record)
    except (OSError, StateError, *codec.UNREADABLE):
        pass
