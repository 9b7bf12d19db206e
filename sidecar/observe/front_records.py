"""The fronts before engines' own runtimes that are recorded on this host: whether one came, or was taken away.

`install-runtime` writes a record before an engine is told of a front, and removes it after all engines were told that
it is gone (`host/install/fronts`). A front that is passing asks no sidecar, and counts as gone. A daemon that does not
see the host's `/etc`, as one in a container, sees no record: then it knows of fronts by their questions alone.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from sidecar.beat import beat
from sidecar.board import Board
from state import codec, files
from state.errors import StateError

FRONTS: Final = "/etc/cpuset-sidecar/fronts"
"""A folder for each engine, with a record for each front. At another prefix they are not looked for."""

LOOK_SECONDS: Final = 5.0
"""Between two looks. One costs a stat for each engine as long as nothing changes."""

_ENGINES: Final = ("docker", "podman")
_RECORD: Final = ".json"
_LIMIT: Final = 256 * 1024

Front = tuple[str, str]
"""An engine, and the name of the runtime under which it calls the front."""


class _Record(msgspec.Struct, frozen=True):
    name: str
    passing_since: str = ""


async def watch_fronts(board: Board, folder: str = FRONTS) -> None:
    """Show on the board which fronts are recorded, until cancelled."""
    shown: tuple[int, ...] | None = None
    while True:
        # Records are moved into place, and removed: both change the time of their folder.
        found = tuple(_changed_at(os.path.join(folder, engine)) for engine in _ENGINES)
        if found != shown:
            board.tell_fronts(recorded(folder))
            shown = found
        await beat(LOOK_SECONDS)


def recorded(folder: str) -> frozenset[Front]:
    """Return the fronts that ask. What cannot be read, or understood, is none."""
    return frozenset((engine, name) for engine in _ENGINES for name in _names(os.path.join(folder, engine)))


def _changed_at(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def _names(folder: str) -> list[str]:
    found: list[str] = []
    try:
        with files.directory(folder) as at:
            for name in os.listdir(folder):
                if name.endswith(_RECORD):
                    record = codec.decode(files.read_bounded(at, name, _LIMIT) or b"", _Record)
                    found += [] if record.passing_since else [record.name]
    except (OSError, StateError, *codec.UNREADABLE):
        pass
    return found
