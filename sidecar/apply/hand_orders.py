"""Carries out the orders to the hand, at once: no engine and no lock is waited for. Outcomes are facts.

There is no hand until one is opened, and none after it has broken. A write that finds none fails; that there is none is
a fact of its own (`observe/births`). If a hand fails unexpectedly while it takes answers, it is not known which it
holds: it is used no more, and what follows it opens another.

What newborns get that are not known is the standing order of fronts as well (`standing_orders`). The answers are held
once the hand holds them and no container starts by an older order any more: until then a start that is under way is
one of the newborns, unseen or not; and one of an owner that got no answer is where the hand had it (`own_starts`).
Without a hand there is no order, since nothing keeps account of newborns then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from sidecar.apply.standing_orders import NAMED_SECONDS, StandingOrders, waited_for
from sidecar.beat import beat
from sidecar.board import Board
from sidecar.decide.facts import Fact
from sidecar.decide.hand_facts import AnswersHeld, CpusetWritten, WriteFailed
from sidecar.decide.orders import HoldAnswers, WriteCpuset
from sidecar.failures import CgroupError, CgroupGone
from sidecar.log import Log
from sidecar.ports import Hand, HeldAnswers, Tickets
from state.errors import StateError
from state.key import ContainerKey

STUCK_SECONDS: Final = 1.0
"""Between two attempts on newborns that could not be written, and on an order that could not."""

HELD_SECONDS: Final = 0.005
"""Between two looks whether a start by an older order is over: a container is created in fifty times that."""

ENDED_SECONDS: Final = 5.0
"""Between two times that starts which have ended are forgotten."""

_STARTS: Final = "starts"
_ORDER: Final = "standing order"


class HandOrders:
    """Performs orders with the hand in use; `tell` sends a fact without waiting."""

    def __init__(
        self,
        board: Board,
        tell: Callable[[Fact], None],
        standing: StandingOrders | None = None,
        log: Log | None = None,
        *,
        tickets: Tickets,
    ) -> None:
        self._standing = standing
        self._log = log
        self._waiting: tuple[HoldAnswers, HeldAnswers] | None = None
        """Answers that are held as soon as no container starts by an older order."""
        self._waits = trio.Event()
        self._lose: Callable[[Exception], None] | None = None
        self._told: int | None = None
        """The number of the answers that were last told to be held."""
        self._hand: Hand | None = None
        self._board = board
        self._tell = tell
        self._tickets = tickets
        self._newest: HoldAnswers | None = None
        self._is_stuck = False
        self._stuck = trio.Event()
        """Set as long as something may be stuck: nothing is woken while nothing is."""

    def use(self, hand: Hand | None, lose: Callable[[Exception], None] | None = None) -> None:
        """Use this hand from now on; None: there is none any more. `lose` is told by which error it is used no more."""
        self._hand, self._newest, self._is_stuck, self._waiting, self._told = hand, None, False, None, None
        self._lose = lose

    def hold(self, order: HoldAnswers) -> None:
        """Hold these answers from now on."""
        self._newest = order
        self._hold(order.resting)

    def hold_again(self) -> None:
        """Hold the newest answers again: what could not be written is tried once more."""
        # What rested then may run by now.
        self._hold(frozenset())

    def _hold(self, resting: frozenset[ContainerKey]) -> None:
        try:
            self._hold_newest(resting)
        except Exception as error:
            lose = self._lose
            self.use(None)
            if lose is None:
                raise
            lose(error)

    def _hold_newest(self, resting: frozenset[ContainerKey]) -> None:
        order = self._newest
        if self._hand is None or order is None:
            return
        is_written = self._write_order(order)
        try:
            held = self._hand.hold(
                order.answers, order.parents, order.home, resting, keeps_defaults=order.keeps_defaults
            )
        except CgroupError:
            # It has broken, and its news say so.
            return
        self._is_stuck = bool(held.stuck) or not is_written
        if self._is_stuck:
            self._stuck.set()
        self._waiting = order, held
        if not self._tell_if_free():
            self._waits.set()

    def _write_order(self, order: HoldAnswers) -> bool:
        """Write the standing order; return whether it is written. If not, it counts as held as long as it is there."""
        if self._standing is None:
            return True
        problem = None
        try:
            self._standing.give(order.answers.others, asks_all=not order.labels_tell)
        except StateError as error:
            problem = f"the standing order of fronts cannot be written, so they ask about each start: {error}"
        self._report(_ORDER, problem)
        return problem is None

    def _tell_if_free(self) -> bool:
        """Tell that the answers are held, if no container starts by an older order; return whether nothing waits. What
        was told of them already stays true: what is new of stuck newborns is told at once.
        """
        if self._waiting is None:
            return True
        order, held = self._waiting
        if order.number == self._told or not (self._standing and self._standing.is_awaited()):
            self._waiting, self._told = None, order.number
            self._tell(AnswersHeld(order.number, held.parents, held.stuck, self._tickets()))
            self._report(_STARTS, None)
        return self._waiting is None

    async def keep_waiting(self) -> None:
        """Tell that answers are held when the last start by an older order is created, until cancelled."""
        while True:
            if self._waiting is None:
                await self._waits.wait()
            self._waits, since = trio.Event(), trio.current_time()
            while not self._tell_if_free():
                await trio.sleep(HELD_SECONDS)
                # It may have ended meanwhile: then nobody is waited for, and nobody could be named.
                standing = self._standing
                if standing and standing.is_awaited() and trio.current_time() - since > NAMED_SECONDS:
                    self._report(_STARTS, waited_for(standing.holders()))

    async def keep_order(self) -> None:
        """Take the order away as long as there is no hand, until cancelled; forget starts that have ended."""
        standing = self._standing
        if standing is None:
            return
        # What an earlier run left tells of no front that is there.
        await trio.to_thread.run_sync(standing.forget_ended)
        while True:
            world = self._board.latest
            if world.hand is None and world.handless:
                with suppress(StateError):
                    standing.give(None, asks_all=True)
            if begun := standing.begun():
                self._board.tell_begun(begun)
            if standing.has_left_over():
                await trio.to_thread.run_sync(standing.forget_ended)
            await beat(ENDED_SECONDS)

    def _report(self, place: str, problem: str | None) -> None:
        if self._board.report(place, problem) and problem and self._log:
            self._log.warning(problem)

    def write(self, order: WriteCpuset) -> None:
        """Write a container's cgroup."""
        self.write_many((order,))

    def write_many(self, orders: Sequence[WriteCpuset]) -> None:
        """Write the cgroups of containers, and then tell what became of each."""
        containers = self._board.latest.containers
        there = [each for each in orders if self._hand is not None and each.container in containers]
        writes = [(containers[each.container].view, each.update) for each in there]
        written = self._hand.write_many(writes) if self._hand is not None and writes else ()
        outcomes = dict(zip((each.number for each in there), written, strict=True))
        for order in orders:
            found = outcomes.get(order.number) or CgroupGone("there is nothing to write, or no hand")
            if isinstance(found, CgroupError):
                is_gone = isinstance(found, CgroupGone)
                self._tell(WriteFailed(order.container, order.number, str(found), is_gone, self._tickets()))
            else:
                self._tell(CpusetWritten(order.container, order.number, found, self._tickets()))

    async def keep_all(self) -> None:
        """Do what orders leave to be done later, until cancelled."""
        async with trio.open_nursery() as nursery:
            for each in (self.keep_trying, self.keep_waiting, self.keep_order):
                nursery.start_soon(each)

    async def keep_trying(self) -> None:
        """Try again what is stuck, until cancelled. The answers are a standing order: no new decision is needed."""
        while True:
            await self._stuck.wait()
            await trio.sleep(STUCK_SECONDS)
            if self._is_stuck:
                self.hold_again()
            else:
                self._stuck = trio.Event()
