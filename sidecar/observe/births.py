"""Births: opens the hand, and turns its news into facts and into requests for looks.

The news of a birth is a hint, like an engine's event, and comes earlier: the group is there before the engine reports
the start. What it is must be looked up.

The parents depend on the engine. If there are recorded grants, they name it, and the hand is opened before the engine
is asked: owners are protected at once, also while the engine is away. Otherwise there is nothing to protect, and the
hand is opened once the engine is known.

A hand that breaks, or that fails unexpectedly, ends the task with an error, and is opened again when that begins again.
One that could not be opened from the first is not tried again: what it lacks, a mount or a right, does not come.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

import trio

from sidecar.board import BirthCounts, Board
from sidecar.crashes import Crashes
from sidecar.decide.facts import Fact
from sidecar.decide.hand_facts import BornInside, GoneInside, HandLost, HandReady, Overwritten, Slipped
from sidecar.decide.world import World
from sidecar.failures import CgroupClosed, CgroupError
from sidecar.log import Log
from sidecar.observe.foreign_writes import ToldWrites
from sidecar.ports import (
    GroupBorn,
    GroupGone,
    GroupOverwritten,
    GroupPinned,
    GroupShut,
    GroupStuck,
    GroupWritten,
    Hand,
    HandBroken,
    HandNews,
    NewsLost,
    ParentsChanged,
    ParentWritten,
    Tickets,
)
from sidecar.words.hands import no_hand, parents_shut, parents_taken, stuck_told
from state.cpuset import EMPTY
from state.key import ContainerKey
from state.model import State

_PARENTS: Final = "cgroup parents"
"""The place of the problem that another hand watches a parent."""
_STUCK: Final = "newborn cgroups"
_SHUT: Final = "closed cgroup parents"

SHUT_SECONDS: Final = 5.0
"""Between two looks at parents that are closed: nothing tells that one was opened again."""


class UseHand(Protocol):
    """Begins to use a hand, or ends that; `lose` is told an unexpected error, after which it is used no more."""

    def __call__(self, hand: Hand | None, lose: Callable[[Exception], None] | None = None) -> None:
        """Use this one from now on."""


class Hearing(Protocol):
    """What hears the hints of a hand, and looks at containers (`engine_rooms`)."""

    def key_of(self, engine: str, id: str) -> ContainerKey:
        """Return the key of a container below a watched parent; `engine` is "" where it is not known."""

    def look(self, container: ContainerKey) -> None:
        """Look at a container soon."""

    def hear(self, container: ContainerKey) -> None:
        """Hear that a container may have started or ended."""

    def born(self, container: ContainerKey, below: str, *, is_answered: bool) -> None:
        """Hear of a birth below this cgroup."""

    def born_inside(self, birth: BornInside) -> None:
        """Report what was born inside an owner's group, unless the engine does not know it."""

    def pinned(self, container: ContainerKey) -> None:
        """Hear that its runtime gave a newborn CPUs of its own."""

    def look_at_newcomers(self) -> None:
        """Look at all newcomers that wait."""

    def look_at_everything(self) -> None:
        """Take inventories soon."""


def parent_of(path: str, id: str) -> str:
    """Return below which cgroup the container with this id was born: its processes may be in a group within its own."""
    return os.path.dirname(path.partition(id)[0] if id else path)


class Births:
    """Opens a hand, gives it to `use`, and follows its news. `hearing` looks at containers, `again` asks for another
    attempt on groups that could not be written.
    """

    def __init__(
        self,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        *,
        use: UseHand,
        again: Callable[[], None],
        hearing: Hearing,
        tickets: Tickets,
        log: Log,
    ) -> None:
        self._board = board
        self._outbox = outbox
        self._use = use
        self._again = again
        self._hearing = hearing
        self._tickets = tickets
        self._log = log
        self._crashes = Crashes(board, log)
        self._writes = ToldWrites(board, log, "guard")
        self._was_open = False
        self._why = ""
        """Why it broke."""

    async def run(self, open_hand: Callable[[str], Hand]) -> None:
        """Open the hand for the engine of this name, and follow it until it breaks or the task is cancelled. If another
        engine answers than before, open it again for that one. Of several engines none is named.
        """
        if len(self._board.latest.contacts) > 1:
            await self._follow(open_hand, "")
            await trio.sleep_forever()
        engine = recorded_engine(self._board.latest.state) or await self._engine_other_than("")
        while True:
            others: list[str] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow, open_hand, engine)
                others.append(await self._engine_other_than(engine))
                nursery.cancel_scope.cancel()
            [engine] = others
            await self._lost("another engine answers than before")

    async def failed(self) -> None:
        """Tell that the hand is lost: it broke, or following it failed unexpectedly."""
        why, self._why = self._why, ""
        await self._lost(why or "following it failed unexpectedly: the log has the error")

    async def _follow(self, open_hand: Callable[[str], Hand], engine: str) -> None:
        try:
            hand = open_hand(engine)
        except CgroupError as error:
            if self._was_open:
                raise
            await self._lost(str(error))
            return
        self._was_open = True
        try:
            await self._follow_opened(hand, engine)
        finally:
            self._use(None)
            self._board.report(_PARENTS, None)
            self._board.report(_STUCK, None)
            self._board.report(_SHUT, None)
            hand.close()

    async def _follow_opened(self, hand: Hand, engine: str) -> None:
        broke: list[Exception] = []
        with trio.CancelScope() as following:

            def lose(error: Exception) -> None:
                broke.append(error)
                following.cancel()

            self._use(hand, lose)
            self._log.info("cgroups are written directly", parents=" ".join(hand.parents))
            self._board.report(_STUCK, stuck_told)
            await self._ready(hand, hand.parents, hand.taken)
            while True:
                news: Sequence[HandNews] = ()
                again = trio.current_time() + SHUT_SECONDS if _SHUT in self._board.problems else math.inf
                with trio.move_on_at(min(self._writes.calm_at(), again)):
                    news = await hand.news()
                if again < math.inf or any(isinstance(each, GroupStuck | GroupShut) for each in news):
                    self._tell_shut(hand.shut)
                for key in self._writes.forget_calm(trio.current_time()):
                    await self._outbox.send(Overwritten(key, EMPTY, 0))
                await self._take(hand, engine, news)
        raise broke[0]

    def _tell_shut(self, parents: tuple[str, ...]) -> None:
        problem = parents_shut(parents) if parents else None
        if self._board.report(_SHUT, problem) and problem:
            self._log.warning(problem)

    async def _engine_other_than(self, engine: str) -> str:
        """Wait for an engine of another name, and return that."""
        async for world in self._board.worlds():
            if world.engine is not None and world.engine.name != engine:
                return world.engine.name
        raise AssertionError("worlds never end")

    async def _ready(self, hand: Hand, parents: tuple[str, ...], taken: tuple[str, ...]) -> None:
        problem = ": ".join(parents_taken(taken)) if taken else None
        if self._board.report(_PARENTS, problem) and problem:
            self._log.warning(problem)
        await self._outbox.send(HandReady(parents, self._tickets(), taken, hand.home))

    async def _take(self, hand: Hand, engine: str, news: Sequence[HandNews]) -> None:
        """Take these news. Raise CgroupClosed if the hand has broken."""
        for each in news:
            if isinstance(each, HandBroken):
                self._use(None)
                self._why = each.reason
                raise CgroupClosed(each.reason) from each.error
            if isinstance(each, ParentsChanged):
                await self._ready(hand, each.parents, each.taken)
            elif not await self._crashes.run(None, "news of the hand", partial(self._hear, engine, each)):
                # Of whom they told is to be found out.
                self._hearing.look_at_everything()

    async def _hear(self, engine: str, each: HandNews) -> None:
        match each:
            case GroupBorn(inside=owner) if owner:
                found = self._hearing.key_of(engine, each.id), self._hearing.key_of(engine, owner)
                self._hearing.born_inside(BornInside(*found, parent_of(each.path, each.id), self._tickets()))
            case GroupGone(inside=owner) if owner:
                await self._outbox.send(
                    GoneInside(self._hearing.key_of(engine, each.id), self._hearing.key_of(engine, owner))
                )
            case GroupBorn():
                self._count(answered=each.cpus is not None, unanswered=each.cpus is None)
                for ended in perhaps_removed(self._board.latest):
                    self._hearing.look(ended)
                if each.id:
                    key, below = self._hearing.key_of(engine, each.id), parent_of(each.path, each.id)
                    self._hearing.born(key, below, is_answered=each.cpus is not None)
            case GroupGone():
                if each.id and (key := self._hearing.key_of(engine, each.id)) in self._board.latest.containers:
                    self._hearing.hear(key)
            case GroupPinned():
                self._hearing.pinned(self._hearing.key_of(engine, each.id))
            case GroupShut():
                await self._shut(self._hearing.key_of(engine, each.id), each)
            case GroupStuck():
                self._again()
            case GroupWritten():
                self._again()
                if (key := self._hearing.key_of(engine, each.id)) in self._board.latest.containers:
                    self._hearing.hear(key)
            case GroupOverwritten():
                await self._overwritten(self._hearing.key_of(engine, each.id), each)
            case NewsLost() | ParentWritten():
                self._hearing.look_at_everything()
            case ParentsChanged() | HandBroken():
                pass

    async def _overwritten(self, key: ContainerKey, news: GroupOverwritten) -> None:
        await self._outbox.send(Overwritten(key, news.found, news.times, news.is_wrested))
        self._count(overwritten=news.times)
        self._writes.add(key, news.found, news.times, trio.current_time(), is_wrested=news.is_wrested)

    async def _shut(self, key: ContainerKey, news: GroupShut) -> None:
        # While the run that is known is still the one of which this is told.
        self._writes.add(key, news.found, 1, trio.current_time(), shut=news.reason)
        await self._outbox.send(Slipped(key, news.reason, self._tickets()))

    def _count(self, *, answered: int = 0, unanswered: int = 0, overwritten: int = 0) -> None:
        before = self._board.births
        self._board.births = BirthCounts(
            before.answered + answered, before.unanswered + unanswered, before.overwritten + overwritten
        )

    async def _lost(self, reason: str) -> None:
        self._log.warning(no_hand(reason))
        self._hearing.look_at_newcomers()
        await self._outbox.send(HandLost(reason, self._tickets()))


def recorded_engine(state: State) -> str:
    """Return the name of the engine to which all recorded grants belong; "" if there is none, or more than one."""
    names = {key.engine for key in state.assignments}
    return names.pop() if len(names) == 1 else ""


def perhaps_removed(world: World) -> tuple[ContainerKey, ...]:
    """Return those owners that have ended, of engines that tell late of a removal. What starts now may ask for just
    their CPUs, and would be refused until its next start.
    """
    return tuple(
        key
        for key in world.state.assignments
        if (known := world.containers.get(key))
        and known.is_idle
        and (info := world.info_of(key.engine))
        and info.traits.tells_late
    )
