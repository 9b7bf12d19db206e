"""The fronts before engines' own runtimes that are recorded on this host: whether one came, or was taken away.

`install-runtime` writes a record before an engine is told of a front, and removes it after all engines were told that
it is gone (`host/install/fronts`). A front that is passing asks no sidecar, and counts as gone. A daemon that does not
see the host's `/etc`, as one in a container, sees no record: then it knows of fronts by their questions alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from typing import Final

import msgspec
import trio

from sidecar.beat import next_beat
from sidecar.board import Board
from state import codec, files
from state.errors import StateError
from state.inotify import Deaf, Ears, nearest_directory

FRONTS: Final = "/etc/cpuset-sidecar/fronts"
"""A folder for each engine, with a record for each front. At another prefix they are not looked for."""

LOOK_SECONDS: Final = 5.0
"""Between two looks, where nothing is heard. One costs a stat for each engine as long as nothing changes."""

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
    folders = [os.path.join(folder, engine) for engine in _ENGINES]
    with closing(_Ears()) as ears:
        shown: tuple[int, ...] | None = None
        while True:
            # Before the look: what comes after it is heard.
            ears.listen(folders)
            # Records are moved into place, and removed: both change the time of their folder.
            if (found := tuple(map(_changed_at, folders))) != shown:
                board.tell_fronts(recorded(folder))
                shown = found
            with trio.move_on_at(next_beat(trio.current_time(), LOOK_SECONDS)):
                await ears.heard()


class _Ears:
    """Hears changes in these folders, or in the nearest ones above that exist; nothing where there is no inotify."""

    def __init__(self) -> None:
        try:
            self._ears: Ears | None = Ears()
        except Deaf:
            self._ears = None
        self._numbers: set[int] = set()

    def listen(self, folders: Iterable[str]) -> None:
        if self._ears is None:
            return
        heard = {number for each in folders if (number := self._ears.listen(nearest_directory(each))) is not None}
        for number in self._numbers - heard:
            self._ears.leave(number)
        self._numbers = heard

    async def heard(self) -> None:
        if self._ears is None:
            await trio.sleep_forever()
        await trio.lowlevel.wait_readable(self._ears.fd)
        self._ears.drain()

    def close(self) -> None:
        if self._ears is not None:
            self._ears.close()


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
