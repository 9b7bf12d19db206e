"""CPUs that come and go: read which CPUs are online, mend what the kernel leaves broken, and report the machine.

1. The kernel tells of a change where it can (docs/decisions/0098). The list of online CPUs is one short file: it is
   read then, and every ten seconds in any case; where nothing is heard, every second.
2. After a change, the host is mended first: without that no container could get CPUs on cgroup v1
   (`host.cgroup.mending`).
3. Then the machine is read and reported: owners get replacements, and the shared pool gets the rest.
4. Processes that fell out of their container's group can return only once it has CPUs again, and the kernel does its
   part of a change shortly after it shows it: so mending goes on while anything is left to mend.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from typing import Final

import trio

from sidecar.astray import Astray
from sidecar.beat import beat, next_beat
from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.container.grip import Closed
from sidecar.decide.container.line import FaultKind
from sidecar.decide.facts import Fact, TopologyRead
from sidecar.host_ports import CpuEars, Kernel
from sidecar.log import Log
from sidecar.words.strays import told
from state.cpuset import CPUSet
from state.errors import StateError

ROUNDS_AFTER: Final = 3
"""Mendings after a change: the kernel's own work may come after the list that shows it (v1 before 6.10)."""

QUICK_SECONDS: Final = 0.1
QUICK_ROUNDS: Final = 50
"""While processes are astray, among those of other containers, mending goes on at this pace, for a bounded number of
rounds.
"""

PERIOD_SECONDS: Final = 1.0
HEARD_PERIOD_SECONDS: Final = 10.0
"""From one look to the next, where nothing is heard, and where the kernel tells of changes."""

SETTLING_SECONDS: Final = 0.02
"""What the kernel still does after it told of a change, and what comes right after it, as the next CPU."""

_WHERE: Final = "hotplug"

_SUSPICIOUS: Final = (FaultKind.FAILED, FaultKind.INEFFECTIVE)
"""How an order fails if CPUs went and came back between two looks: a group above lacks them, or processes fell out of
their own group (cgroup v1). There may be other reasons; mending then finds nothing.
"""


async def watch_cpus(
    kernel: Kernel,
    board: Board,
    outbox: trio.MemorySendChannel[Fact],
    *,
    look_at_everything: Callable[[], None],
    log: Log,
) -> None:
    """Watch until cancelled. An unreadable file or a failed mending is logged once, and is a problem on the board."""
    watch, crashes = _Watch(kernel, board, outbox, look_at_everything, log), Crashes(board, log)
    ears = kernel.cpu_ears()
    with nullcontext() if ears is None else closing(ears):
        async with trio.open_nursery() as nursery:
            if ears is not None:
                nursery.start_soon(watch.listen, ears)
            while True:
                with crashes.contained(None, "hotplug"):
                    await watch.look()
                await watch.pause()


class _Watch:
    """What was last seen, and what is still to be mended."""

    def __init__(
        self,
        kernel: Kernel,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        look_at_everything: Callable[[], None],
        log: Log,
    ) -> None:
        self._kernel = kernel
        self._board = board
        self._outbox = outbox
        self._look_at_everything = look_at_everything
        self._log = log
        self._online = board.latest.topology.online
        self._due = 1  # mending rounds: for changes before the daemon's start
        self._quick = 0
        self._astray: tuple[Astray, ...] = ()
        self._unreadable = ""
        self._hears = self._was_told = False
        self._stirred = trio.Event()

    async def listen(self, ears: CpuEars) -> None:
        """Have a look follow each change that is heard, and each order that failed as if one had been missed."""
        self._hears = True
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear, ears)
            async for _ in self._board.worlds():
                if self._has_work():
                    self._stirred.set()
                await trio.sleep(PERIOD_SECONDS)

    async def pause(self) -> None:
        """Wait until the next look is due."""
        if self._quick:
            await trio.sleep(QUICK_SECONDS)
        elif not self._hears or self._has_work():
            await beat(PERIOD_SECONDS)
        else:
            with trio.move_on_at(next_beat(trio.current_time(), HEARD_PERIOD_SECONDS)):
                await self._stirred.wait()
                await trio.sleep(SETTLING_SECONDS)
            self._stirred = trio.Event()

    async def _hear(self, ears: CpuEars) -> None:
        try:
            while True:
                await trio.lowlevel.wait_readable(ears.fd)
                ears.drain()
                # CPUs may have gone and come again, which their list does not show.
                self._due, self._quick = ROUNDS_AFTER, QUICK_ROUNDS
                self._hears = self._was_told = True
                self._stirred.set()
                await trio.sleep(SETTLING_SECONDS)
        except OSError as error:
            self._hears = False
            self._log.warning("CPUs that come and go are not heard any more", reason=str(error))

    async def look(self) -> None:
        """Do one round."""
        # 1. Nothing else is read while nothing changes.
        was_told, self._was_told = self._was_told, False
        self._quick = max(self._quick - 1, 0)
        try:
            online = self._kernel.online()
        except StateError as error:
            self._say_unreadable(str(error))
            return
        if online != self._online:
            # Ears that miss a change are not relied on until they hear one.
            self._hears = self._hears and was_told
            await self._change(online)
            return
        self._say_unreadable("")
        if self._board.latest.is_ready and (self._due or self._astray or self._is_doubtful()):
            await self._mend()

    async def _change(self, online: CPUSet) -> None:
        if gone := self._online - online:
            self._log.warning("CPUs went offline", cpus=gone, online=online)
        if came := online - self._online:
            self._log.info("CPUs came online", cpus=came, online=online)
        self._due, self._quick = ROUNDS_AFTER, QUICK_ROUNDS
        # 2. Before any container is granted CPUs.
        await self._mend()
        # 3. The next round tries again if the machine cannot be read.
        try:
            topology = await trio.to_thread.run_sync(self._kernel.topology)
        except StateError as error:
            self._say_unreadable(str(error))
            return
        self._online = online
        self._say_unreadable("")
        await self._outbox.send(TopologyRead(topology))

    async def _mend(self) -> None:
        """Mend once (4); look at all containers again if processes could be mended."""
        views = [each.view for each in self._board.latest.containers.values()]
        before, self._due = self._astray, max(self._due - 1, 0)
        self._astray = await trio.to_thread.run_sync(self._kernel.mend, views)
        if not self._due and not self._astray:
            self._quick = 0
        for astray in self._astray:
            if astray not in before:
                self._log.warning(told(astray))
        self._board.report(_WHERE, "; ".join(map(told, self._astray)) or None)
        if set(before) - set(self._astray):
            self._look_at_everything()

    def _has_work(self) -> bool:
        """Return whether something is to be mended or to be read again, or may be."""
        return bool(self._due or self._astray or self._unreadable) or self._is_doubtful()

    def _is_doubtful(self) -> bool:
        """Return whether an order failed as on a host that needs mending, and not because a container closed its
        cgroup.
        """
        world = self._board.latest
        wrested = world.hand.wrested if world.hand else ()
        return any(
            each.fault.kind in _SUSPICIOUS and not isinstance(each.grip, Closed) and key not in wrested
            for key, each in world.containers.items()
            if each.fault
        )

    def _say_unreadable(self, reason: str) -> None:
        if reason and reason != self._unreadable:
            self._log.error("CPU hotplug is not observed", reason=reason)
        self._unreadable = reason
        if reason:
            self._board.report(_WHERE, reason)
        elif not self._astray:
            self._board.report(_WHERE, None)
