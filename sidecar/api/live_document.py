"""The status document as a stream: whole at first, then what changed. It is made once, whatever the number of readers.

1. It is made only while a reader waits for it, and at most every `PAUSE` seconds.
2. Of a crowd of containers a document takes long. So it is made so seldom that it takes at most one part in `SHARE` of
   the time, but every `MOST_PAUSE` seconds. It has `NEIGHBOURS` of a container's neighbours at most: all are while a
   crowd arrives.
3. A reader that has the version before is sent the difference, any other one the whole document.
4. Whether the daemon vouches is said with each document, and to each reader every `LEASE_PAUSE` seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
import trio

from sidecar.api.documents import Vouching
from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.log import Log
from sidecar.status.document import ContainerStatus
from sidecar.status.last_state import reading_of
from sidecar.status.present_status import PresentStatus
from state import codec

PAUSE: Final = 0.1
"""Seconds between two documents at least, as of the status file."""

MOST_PAUSE: Final = 15.0
"""Seconds between two at most, while changes never end."""

NEIGHBOURS: Final = 8
"""Of one container: 400 that arrive at once are 160,000 pairs."""

SHARE: Final = 100
"""Of the time, at most one part in so many is spent on documents."""

LEASE_PAUSE: Final = 5.0
"""Seconds between two words on whether the daemon vouches: as often as it does."""

_READERS_PAUSE: Final = 0.005
"""Seconds that it waits, so that the changes themselves go first."""

_APART: Final = ("containers", "updated_at")
"""Fields of the document that are sent in another way: each container by itself, the time with each message."""

Kept = tuple[ContainerStatus, str]
"""What is said of a container: its status, and its engine, also where that is the only one."""


class LiveDocument:
    """The document of one board. `keep` has to run."""

    def __init__(
        self,
        board: Board,
        present: PresentStatus,
        clock: Callable[[], datetime],
        busy: Callable[[], float] = time.thread_time,
    ) -> None:
        """Make it from this board. `busy` gives the seconds that this thread has worked."""
        self._board = board
        self._present = present
        self._clock = clock
        self._busy = busy
        self._wanted = trio.Event()
        self._made = trio.Event()
        self._count = -1
        self._vouched = False
        self._fields: Mapping[str, Any] = {}
        self._containers: dict[str, Kept] = {}
        self._difference = b""
        self._encoded: dict[str, tuple[Kept, bytes]] = {}
        self.version = 0
        """How many documents were made."""

    async def keep(self, log: Log) -> None:
        """Make documents for readers that wait, until cancelled."""
        crashes = Crashes(self._board, log)
        pause = 0.0
        while True:
            await self._wanted.wait()
            self._wanted = trio.Event()
            with trio.move_on_after(LEASE_PAUSE - pause):
                # Without a change, too: whether the daemon vouches may be another matter by then.
                await self._board.changed_since(self._count)
                await trio.sleep(_READERS_PAUSE)
            took = 0.0
            with crashes.contained(None, "the live document"):
                took = self._make()
            self._wake()
            pause = min(max(PAUSE, took * SHARE), MOST_PAUSE)
            while pause > LEASE_PAUSE:
                await trio.sleep(LEASE_PAUSE)
                self._wake()
                pause -= LEASE_PAUSE
            await trio.sleep(pause)

    async def changed_since(self, version: int) -> None:
        """Wait for a document after this version, or for the time of a word on the lease."""
        if self.version == version:
            self._wanted.set()
            await self._made.wait()

    def message(self, version: int) -> bytes:
        """Return what a reader of this version has to be sent: the document, the difference, or the lease alone."""
        if not self.version:
            self._make()
        if version == self.version:
            return _sent("lease", {"vouched": self._vouched, "now": self._clock().timestamp()})
        return self._difference if version == self.version - 1 and version else self._whole()

    def _wake(self) -> None:
        self._made.set()
        self._made = trio.Event()

    def _make(self) -> float:
        """Make the document if it is another one than before. Return the seconds that it took."""
        began = self._busy()
        world, count = self._board.latest, self._board.count
        vouching = Vouching.of(world, self._board.vouched_at, self._clock())
        if count == self._count and vouching.counts == self._vouched:
            return 0.0
        self._count, self._vouched = count, vouching.counts
        told = reading_of(self._present.of(), vouched=vouching.counts, outdated=vouching.is_outdated)
        fields = {
            name: getattr(told, name) for name in told.__struct_fields__ if name not in ("containers", "updated_at")
        }
        owning = (each for each in told.units if each.asked)
        engines = {key.id: key.engine for key in world.containers}
        containers = {each.id: (_brief(each), engines[each.id]) for each in (*told.containers, *owning)}
        changed = {name: value for name, value in fields.items() if self._fields.get(name, ...) != value}
        others = [id for id, each in containers.items() if self._containers.get(id) != each]
        gone = [id for id in self._containers if id not in containers]
        self._fields, self._containers = fields, containers
        if changed or others or gone or not self.version:
            self.version += 1
            parts = b",".join(self._container(id) for id in others)
            self._difference = _frame(
                "difference", self._head(changed) + b',"gone":%s,"containers":[%s]' % (codec.encode(gone), parts)
            )
            for id in gone:
                self._encoded.pop(id, None)
        return self._busy() - began

    def _whole(self) -> bytes:
        parts = b",".join(self._container(id) for id in self._containers)
        return _frame("status", self._head(self._fields) + b',"containers":[%s]' % parts)

    def _head(self, fields: Mapping[str, Any]) -> bytes:
        at = {"vouched": self._vouched, "now": self._clock().timestamp()}
        return b'"at":%s,"fields":%s' % (codec.encode(at), codec.encode(fields))

    def _container(self, id: str) -> bytes:
        kept = self._containers[id]
        known = self._encoded.get(id)
        if known is None or known[0] is not kept:
            known = self._encoded[id] = (kept, codec.encode(msgspec.structs.replace(kept[0], engine=kept[1])))
        return known[1]


def _brief(each: ContainerStatus) -> ContainerStatus:
    if len(each.neighbours) <= NEIGHBOURS:
        return each
    return msgspec.structs.replace(each, neighbours=each.neighbours[:NEIGHBOURS])


def _sent(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), codec.encode(value))


def _frame(name: str, members: bytes) -> bytes:
    return b"event: %s\ndata: {%s}\n\n" % (name.encode(), members)
