"""Acknowledgements: workloads report in a file that they have left the CPUs that are about to be taken from them.

1. There is something to watch only while a take waits: the directories that notify its container, by inotify, and in
   addition by a slow look, since some file systems drop events.
2. Arm first, read second: a write after the arming makes an event, a write before it is read.
3. What a container writes is untrusted. Directories are watched by their open descriptors, so that no link leads
   elsewhere; at most a few bytes of a file called `ack` are read, and only if it is a regular one; anything but a
   decimal number is ignored. So a workload can only end its own grace.
4. A number counts if it is a generation that announced all CPUs that are leaving now: `Acknowledgeable.awaited`. A
   number that is higher than any announced one is ignored, and so is one from before the take.
5. A workload that writes endlessly is read at most once every `PAUSE`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import trio

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.facts import Fact, TakeAcknowledged
from sidecar.decide.moves.signals import told_of
from sidecar.decide.world import World
from sidecar.log import Log
from sidecar.ports import Acknowledgeable
from state import ack, files
from state.cpuset import CPUSet
from state.errors import FileUnreadable
from state.inotify import Deaf, Ears
from state.key import ContainerKey

SLOW_SECONDS: Final = 0.5
"""Between two looks if no events arrive: a fraction of the usual grace of 2 s."""

PAUSE: Final = 0.01
"""Least seconds between two rounds; a hundred looks a second at one container take 2 % of a CPU."""

_BYTES: Final = 32
"""The longest content that is read: a number of 16 digits, and some white space."""

_COMPLAINTS: Final = 5
"""Different complaints that are logged for one take."""

_NUMBER: Final = re.compile(rb"[0-9]{1,16}")


class _Wait:
    """One take that waits for its container's acknowledgement, and the directories that are watched for it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.watches: frozenset[int] = frozenset()
        self.is_new = True
        self.is_acknowledged = False
        self.complaints: set[str] = set()


class AckReader:
    """Reports each acknowledged take, once."""

    def __init__(
        self, board: Board, projections: Acknowledgeable, outbox: trio.MemorySendChannel[Fact], *, log: Log
    ) -> None:
        self._board = board
        self._projections = projections
        self._outbox = outbox
        self._log = log
        self._crashes = Crashes(board, log)
        self._waits: dict[ContainerKey, _Wait] = {}

    async def run(self) -> None:
        """Listen until cancelled; at no cost while no take waits."""
        async for world in self._board.worlds():
            if _takes(world):
                with self._ears() as ears:
                    self._waits = {}
                    await self._attend(ears)

    async def _attend(self, ears: Ears | None) -> None:
        """Read acknowledgements until no take waits any more."""
        changes = self._board.worlds()
        due: frozenset[ContainerKey] | None = None
        while takes := _takes(self._board.latest):
            self._follow(takes, ears)
            for key, wait in list(self._waits.items()):
                if not wait.is_acknowledged and (due is None or key in due or wait.is_new):
                    with self._crashes.contained(key, "acknowledgement"):
                        await self._look(key, wait, ears)
            await trio.sleep(PAUSE)
            due = await self._hear(changes, ears)
        self._follow({}, ears)

    def _follow(self, takes: dict[ContainerKey, int], ears: Ears | None) -> None:
        """Attend to each take that waits, and to no other."""
        for key, wait in list(self._waits.items()):
            if takes.get(key) != wait.number:
                self._listen(wait, (), ears)
                del self._waits[key]
        for key, number in takes.items():
            if key not in self._waits:
                self._waits[key] = _Wait(number)

    async def _look(self, key: ContainerKey, wait: _Wait, ears: Ears | None) -> None:
        """Report the take if it is acknowledged. The files and the world are read at one instant."""
        await trio.lowlevel.checkpoint()
        world = self._board.latest
        if _take(world, key) != wait.number:
            return
        wait.is_new = False
        with self._projections.directories(key.handle) as opened:
            self._listen(wait, opened, ears)
            awaited = self._projections.awaited(key.handle, _leaving(world, key))
            wait.is_acknowledged = any(self._number(key, wait, at) in awaited for at in opened)
        if wait.is_acknowledged:
            await self._outbox.send(TakeAcknowledged(key, wait.number))

    def _listen(self, wait: _Wait, opened: Sequence[int], ears: Ears | None) -> None:
        """Listen to these directories for this take, and to no other."""
        if ears is None:
            return
        watches = frozenset(watch for at in opened if (watch := ears.listen(f"/proc/self/fd/{at}")) is not None)
        for gone in wait.watches - watches:
            ears.leave(gone)
        wait.watches = watches

    def _number(self, key: ContainerKey, wait: _Wait, at: int) -> int | None:
        """Return the number in this directory's acknowledgement; None if there is none, or no number."""
        try:
            content = files.read_bounded(at, ack.NAME, _BYTES)
        except FileUnreadable as error:
            self._complain(key, wait, str(error))
            return None
        if content is None:
            return None
        if not _NUMBER.fullmatch(content.strip()):
            # A writer leaves the file empty for an instant.
            if content.strip():
                self._complain(key, wait, f"{content.decode('ascii', 'replace')!r} is not a number")
            return None
        return int(content)

    def _complain(self, key: ContainerKey, wait: _Wait, what: str) -> None:
        """Log a complaint once for each take: a workload may write the same a thousand times a second."""
        if what not in wait.complaints and len(wait.complaints) < _COMPLAINTS:
            wait.complaints.add(what)
            known = self._board.latest.containers.get(key)
            self._log.debug(
                "an acknowledgement is ignored", container=known.view.name if known else key.short, reason=what
            )

    async def _hear(self, changes: AsyncIterator[World], ears: Ears | None) -> frozenset[ContainerKey] | None:
        """Wait for something to do. Return the containers to look at, None for all."""
        heard = changed = False

        async def hear() -> None:
            nonlocal heard
            if ears is None:
                await trio.sleep_forever()
            else:
                await trio.lowlevel.wait_readable(ears.fd)
                heard = True
            nursery.cancel_scope.cancel()

        async def notice() -> None:
            nonlocal changed
            await anext(changes)
            changed = True
            nursery.cancel_scope.cancel()

        with trio.move_on_after(SLOW_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hear)
                nursery.start_soon(notice)
        if heard and ears is not None:
            watches = ears.drain()
            if watches is None:
                return None
            return frozenset(key for key, wait in self._waits.items() if wait.watches & watches)
        return frozenset() if changed else None

    @contextmanager
    def _ears(self) -> Iterator[Ears | None]:
        """Yield the listener; None if there is no inotify, so that only the slow look remains."""
        try:
            ears = Ears()
        except Deaf as error:
            self._log.debug("acknowledgements are polled for, without inotify", reason=error)
            yield None
            return
        try:
            yield ears
        finally:
            ears.close()


def _takes(world: World) -> dict[ContainerKey, int]:
    """Return the numbers of the takes that wait, by container."""
    return {key: number for key in world.state.assignments if (number := _take(world, key)) is not None}


def _take(world: World, key: ContainerKey) -> int | None:
    assignment = world.state.assignments.get(key)
    leaving = assignment.leaving if assignment else None
    return leaving.number if leaving and not leaving.is_due and key in world.containers else None


def _leaving(world: World, key: ContainerKey) -> CPUSet:
    """Return the CPUs that its files should say are leaving."""
    return told_of(world.containers[key], world.state.assignments[key]).leaving
