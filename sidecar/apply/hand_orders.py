"""Carries out the orders to the hand, at once: no engine and no lock is waited for. Outcomes are facts.

There is no hand until one is opened, and none after it has broken. A write that finds none fails; that there is none is
a fact of its own (`observe/births`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from sidecar.board import Board
from sidecar.decide.facts import Fact
from sidecar.decide.hand_facts import AnswersHeld, CpusetWritten, WriteFailed
from sidecar.decide.orders import HoldAnswers, WriteCpuset
from sidecar.failures import CgroupError, CgroupGone
from sidecar.ports import Hand, Tickets
from state.key import ContainerKey

STUCK_SECONDS: Final = 1.0
"""Between two attempts on newborns that could not be written."""


class HandOrders:
    """Performs orders with the hand in use; `tell` sends a fact without waiting."""

    def __init__(self, board: Board, tell: Callable[[Fact], None], *, tickets: Tickets) -> None:
        self._hand: Hand | None = None
        self._board = board
        self._tell = tell
        self._tickets = tickets
        self._newest: HoldAnswers | None = None
        self._is_stuck = False
        self._stuck = trio.Event()
        """Set as long as something may be stuck: nothing is woken while nothing is."""

    def use(self, hand: Hand | None) -> None:
        """Use this hand from now on; None: there is none any more."""
        self._hand, self._newest, self._is_stuck = hand, None, False

    def hold(self, order: HoldAnswers) -> None:
        """Hold these answers from now on."""
        self._newest = order
        self._hold(order.resting)

    def hold_again(self) -> None:
        """Hold the newest answers again: what could not be written is tried once more."""
        # What rested then may run by now.
        self._hold(frozenset())

    def _hold(self, resting: frozenset[ContainerKey]) -> None:
        order = self._newest
        if self._hand is None or order is None:
            return
        try:
            held = self._hand.hold(order.answers, order.parents, order.home, resting)
        except CgroupError:
            # It has broken, and its news say so.
            return
        self._is_stuck = bool(held.stuck)
        if self._is_stuck:
            self._stuck.set()
        self._tell(AnswersHeld(order.number, held.parents, held.stuck, self._tickets()))

    def write(self, order: WriteCpuset) -> None:
        """Write a container's cgroup."""
        container = self._board.latest.containers.get(order.container)
        try:
            if self._hand is None or container is None:
                raise CgroupGone("there is nothing to write, or no hand")
            effective = self._hand.write(container.view, order.update)
        except CgroupError as error:
            is_gone = isinstance(error, CgroupGone)
            self._tell(WriteFailed(order.container, order.number, str(error), is_gone, self._tickets()))
        else:
            self._tell(CpusetWritten(order.container, order.number, effective, self._tickets()))

    async def keep_trying(self) -> None:
        """Try again what is stuck, until cancelled. The answers are a standing order: no new decision is needed."""
        while True:
            await self._stuck.wait()
            await trio.sleep(STUCK_SECONDS)
            if self._is_stuck:
                self.hold_again()
            else:
                self._stuck = trio.Event()
