"""EngineRooms: a room for each engine of a host (decision 0069), and the way to the room of a container.

A room is a feed, with its pauses and its silence, and looks and inventories with their turns. Rooms share the inbox,
the tickets and the board. Calls go to the engine whose container it is; an id that is not known is asked of each. With
one engine its looker and its calls are used as they are.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

import trio

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.facts import ContainerView, EngineDisconnected, EngineInfo, Fact
from sidecar.decide.hand_facts import BornInside
from sidecar.decide.orders import Update
from sidecar.engines.host_tenants import HostedEngine
from sidecar.failures import AlreadyRunning, ContainerGone, EngineUnavailable
from sidecar.host_ports import Kernel
from sidecar.lasting import LastingTasks
from sidecar.log import Log
from sidecar.observe.event_stream import LONGEST_RECONNECT_SECONDS, follow_events
from sidecar.observe.looks import Looker
from sidecar.observe.meeting_insiders import MeetingInsiders
from sidecar.observe.pulse import keep_pulse
from sidecar.ports import Engine, EngineEvent, KeepsBack, Tickets, keeps_none
from state.key import ContainerKey


class EngineRooms:
    """The rooms of all engines, in tasks of `nursery`. The first engine shows the units of the host, if any does."""

    def __init__(
        self,
        nursery: trio.Nursery,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        engines: Sequence[Engine],
        *,
        kernel: Kernel,
        tickets: Tickets,
        log: Log,
    ) -> None:
        """Make them; each of several engines has a name of its own from the beginning."""
        self._nursery = nursery
        self._board = board
        self._outbox = outbox
        self.engines = tuple(engines)
        self._tickets = tickets
        self._log = log
        self._keep = LastingTasks(board, log).keep
        names = [each.name for each in engines]
        self._lookers = [
            Looker(
                nursery,
                board,
                outbox,
                engine=each,
                kernel=kernel,
                tickets=tickets,
                log=log,
                unit_sources=partial(_listed_by, each),
                others=[name for name in names if name != each.name] if len(engines) > 1 else (),
            )
            for each in engines
        ]
        self._by_name = dict(zip(names, self._lookers, strict=True))
        self._insiders = MeetingInsiders(
            nursery,
            Crashes(board, log),
            is_known=self._is_known,
            glance=self.calls.glance,
            tell=self.tell,
            engines=names if len(engines) > 1 else (),
        )

    @property
    def first(self) -> Looker:
        """The looker of the first engine, which looks at units of the host."""
        return self._lookers[0]

    @property
    def calls(self) -> Engine:
        """The engine to which calls are made: the only one, or whose container it is."""
        if len(self.engines) == 1:
            return self.engines[0]
        return RoutedEngine({each.name: each for each in self.engines}, lambda id: self._board.latest.key_of(id).engine)

    def look(self, container: ContainerKey) -> None:
        """Look at this container soon."""
        self._of(container).look(container)

    def look_at_everything(self) -> None:
        """Take an inventory of each engine soon."""
        for looker in self._lookers:
            looker.look_at_everything()

    def tell(self, fact: Fact) -> None:
        """Send a fact without waiting."""
        self.first.tell(fact)

    def key_of(self, engine: str, id: str) -> ContainerKey:
        """Return the key of a container of which a cgroup tells, by its engine where that is known: else it is known,
        or waits to be looked at, or names no engine.
        """
        if engine or len(self._lookers) == 1:
            return ContainerKey(engine, id)
        waiting = (ContainerKey(name, id) for name, each in self._by_name.items())
        key = self._board.latest.key_of(id)
        return key if key.engine else next((each for each in waiting if self._of(each).newcomers.waits(each)), key)

    def hear(self, container: ContainerKey) -> None:
        """Hear that a container may have started or ended. An unknown one is met by its engine's event."""
        if container.engine in self._by_name or len(self._lookers) == 1:
            self._of(container).hints.hear(container)

    def born(self, container: ContainerKey, below: str, *, is_answered: bool) -> None:
        """Hear of a birth below this cgroup. That of an unknown one of several engines is met by its engine's event."""
        if container.engine not in self._by_name and len(self._lookers) > 1:
            return
        looker = self._of(container)
        if self._board.latest.is_away(container):
            # Nothing else will tell of it, nor of where it is.
            looker.glances.born(container, below)
            looker.look(container)
        elif not looker.newcomers.born(container, is_answered=is_answered):
            looker.hints.born(container)

    def born_inside(self, birth: BornInside) -> None:
        """Report what was born inside an owner's group, unless no engine knows it."""
        self._insiders.meet(birth)

    def _is_known(self, container: ContainerKey) -> bool:
        looker = self._of(container)
        is_met = container in self._board.latest.containers or looker.is_looked_at(container)
        return is_met or looker.newcomers.waits(container)

    def pinned(self, container: ContainerKey) -> None:
        """Hear that its runtime gave a newborn CPUs of its own."""
        self._of(container).newcomers.pinned(container)

    def look_at_newcomers(self) -> None:
        """End all waits by looks: births are not answered any more."""
        for looker in self._lookers:
            looker.newcomers.look_at_all()

    def keep_inventories(self, period_seconds: float) -> None:
        """Start to take inventories."""
        for looker in self._lookers:
            take = partial(looker.keep_inventory, period_seconds)
            kept = partial(self._keep, looker.named("taking inventories"), take, then=looker.lose_news)
            self._nursery.start_soon(kept)

    def follow(self, rng: random.Random, see_that_alone: Callable[[EngineInfo], None]) -> None:
        """Start to follow the events of each engine."""
        for engine, looker in zip(self.engines, self._lookers, strict=True):
            pulse = partial(keep_pulse, engine, self._board, looker.give_up)
            self._nursery.start_soon(self._keep, looker.named("feeling the engine's pulse"), pulse)
            follow = partial(self._follow, engine, looker, rng, see_that_alone)
            lose = partial(self._lose, engine)
            what = looker.named("following the engine's events")
            ends = (AlreadyRunning,)
            self._nursery.start_soon(
                partial(self._keep, what, follow, then=lose, ends=ends, longest=LONGEST_RECONNECT_SECONDS)
            )

    async def _follow(
        self, engine: Engine, looker: Looker, rng: random.Random, see_that_alone: Callable[[EngineInfo], None]
    ) -> None:
        await follow_events(
            engine,
            self._board,
            looker,
            self._outbox,
            tickets=self._tickets,
            rng=rng,
            log=self._log,
            see_that_alone=see_that_alone,
            name=engine.name if len(self.engines) > 1 else "",
        )

    async def _lose(self, engine: Engine) -> None:
        """Tell that nothing is heard of an engine any more."""
        reason = "following its events failed unexpectedly: the log has the error"
        await self._outbox.send(EngineDisconnected(reason, engine.name if len(self.engines) > 1 else ""))

    def _of(self, container: ContainerKey) -> Looker:
        return self._by_name.get(container.engine, self.first)


def sources_of(engine: Engine) -> tuple[str, ...]:
    """Return the sources of the units that are to be confined beside this engine."""
    return tuple(each.source for each in engine.units) if isinstance(engine, HostedEngine) else ()


def _listed_by(engine: Engine) -> tuple[str, ...]:
    return engine.sources if isinstance(engine, HostedEngine) else ()


async def infos_of(
    engines: Sequence[Engine], hold: Callable[[str], None], log: Log, seconds: float
) -> list[EngineInfo]:
    """Return what the engines tell of themselves that answer within so many seconds each, and `hold` the lock of each.
    Raise EngineUnavailable if an only one cannot be reached; one of several is waited for. Raise AlreadyRunning, and
    EngineLacks.
    """
    found: list[EngineInfo] = []
    for engine in engines:
        try:
            with trio.move_on_after(seconds):
                info = await engine.info()
                hold(info.home)
                found.append(info)
        except EngineUnavailable as error:
            if len(engines) == 1:
                raise
            log.warning("an engine cannot be reached, and is waited for", engine=engine.name, reason=error)
    return found


class RoutedEngine:
    """Several engines as one, for calls about a container. Satisfies the port `Engine`, but for feeds: each engine has
    its own. `owner_of` returns the engine of a container by its id, "" if it is not known; what none of them has is the
    first one's, as units of the host are.
    """

    name = ""

    def __init__(self, engines: Mapping[str, Engine], owner_of: Callable[[str], str]) -> None:
        self._engines = engines
        self._owner_of = owner_of

    async def info(self) -> EngineInfo:
        """Return what the first engine is."""
        return await self._first.info()

    async def ping(self) -> None:
        """Ask the first engine for a sign of life."""
        await self._first.ping()

    async def containers(self) -> tuple[str, ...]:
        """Return the full ids of all containers of all engines."""
        return tuple([id for each in self._engines.values() for id in await each.containers()])

    @property
    def unstarted(self) -> Collection[str]:
        """Of the last list, the ids of those that have never run."""
        return [id for each in self._engines.values() for id in each.unstarted]

    async def inspect(self, container: str) -> ContainerView:
        """Return the view of one container."""
        return await self._of(container).inspect(container)

    async def glance(self, container: str) -> ContainerView:
        """Return the glance of one container: of an unknown one, that of the first engine which knows it."""
        if self._owner_of(container):
            return await self._of(container).glance(container)
        silent: EngineUnavailable | None = None
        for engine in self._engines.values():
            try:
                return await engine.glance(container)
            except ContainerGone:
                continue
            except EngineUnavailable as error:
                silent = error
        raise silent or ContainerGone(f"no engine knows container {container[:12]}")

    async def update(self, container: str, update: Update) -> None:
        """Change CPUs and quota in one call."""
        await self._of(container).update(container, update)

    async def stop(self, container: str) -> None:
        """Stop a container."""
        await self._of(container).stop(container)

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal to a container's first process."""
        await self._of(container).signal(container, signal)

    def events(self, keeps_back: KeepsBack = keeps_none) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
        """Return the events of the first engine."""
        return self._first.events(keeps_back)

    @property
    def _first(self) -> Engine:
        return next(iter(self._engines.values()))

    def _of(self, container: str) -> Engine:
        return self._engines.get(self._owner_of(container), self._first)
