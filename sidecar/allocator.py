"""THE LOOP: receive a burst, step, commit, post, start the orders. The one task that owns the World.

1. Receive: all waiting facts are one burst, up to `BURST`.
2. Step: pure; the new world and the orders. What fronts answer to owners without the sidecar is withdrawn if it is not
   so any more, before the books say otherwise; what is new of it is written in the end.
3. Commit: the burst in the journal, and the State in the checkpoint, on disk, before any order that needs it is sent.
4. Post: readers see the new world, and pause a little before they work on it.
5. Tell: the container's files stop naming the CPUs that an order takes, or that it will not have at its birth, before
   the order is sent; and those that this decision opens to other containers, also those of what is gone, before any
   order is. So do the files of an owner stop saying that it is settled, before an order gives it more. A notice or a
   change is in the workload's files before its grace begins or its signal is sent.
   What many orders take is withdrawn at once, and the writes of cgroups among them are one.
6. Start the orders. Orders of containers that are not live come first, and may be sent before anything else is done: a
   container that is about to start cannot wait.

Starting never waits; outcomes come back as facts. The loop waits only for the inbox and the local writes of 3 and 5,
so no cycle of waiting can form. The State is saved here, not in a thread: every order waits for it anyway, a thread
costs as much again as the write, and another thread reads events meanwhile. A failed write is a problem on the board
and is retried with the next burst; deciding goes on, since the engine and an inventory can rebuild the State. An
unexpected error in an edge is such a failure; one in a decision, or in what follows from it here, ends the daemon.

A State that needs no disk yet (`commit/unsaved`) is saved with the next one that does, before the next order that
needs it, or within `SAVE_SECONDS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from sidecar.api.owner_answers import OwnerAnswers
from sidecar.board import Board
from sidecar.commit.unsaved import may_be_saved_later, needs_books
from sidecar.crashes import Crashes
from sidecar.decide.facts import Fact, Purpose
from sidecar.decide.orders import AnswerStart, ApplyCpuset, Order, SendSignal, StartTimer
from sidecar.decide.settings import PolicyName
from sidecar.failures import StateUnwritable
from sidecar.log import Log
from sidecar.ports import Checkpoints, Journals, StartOrders, Telling
from sidecar.projection.opened import gainers, gone, joined, losers, taken
from sidecar.projection.projection_of import names_of, projection_of
from sidecar.sifting import decide
from sidecar.words.units import noun
from state.cpuset import EMPTY, CPUSet
from state.errors import StateError
from state.key import HOST, ContainerKey
from state.model import State
from state.projection import Projection

_UNEXPECTED: Final = "the sidecar failed unexpectedly: the log has the error"

BURST: Final = 256
"""Facts folded into one decision at most: enough for the sweep of a large host, a bound on the length of a line."""


SAVE_SECONDS: Final = 5.0
"""How long the State may be unsaved if only containers came or went to which nothing was ordered."""


ANSWER_TURNS: Final = 4
"""Turns of the event loop in which the answer to a start gets from the desk to its socket."""


class Allocator:
    """Owns the World of `board`. Send facts by `inbox`; the allocator ends when that is closed."""

    def __init__(
        self,
        board: Board,
        inbox: trio.MemoryReceiveChannel[Fact],
        *,
        checkpoints: Checkpoints,
        journal: Journals,
        projections: Telling,
        owners: OwnerAnswers,
        start_orders: StartOrders,
        log: Log,
    ) -> None:
        self._board = board
        self._inbox = inbox
        self._checkpoints = checkpoints
        self._journal = journal
        self._projections = projections
        self._owners = owners
        self._start_orders = start_orders
        self._log = log
        self._crashes = Crashes(board, log)
        self._saved: State | None = None
        self._save_at = math.inf
        """When the State is saved at the latest."""
        self._rounds = 0

    def sign(self) -> int | None:
        """Return how many bursts were decided, as a sign of life; None if it waits for one."""
        return None if self._inbox.statistics().tasks_waiting_receive else self._rounds

    async def run(self) -> None:
        """Decide until the inbox is closed and empty."""
        with suppress(trio.EndOfChannel):
            while True:
                # 1. Receive.
                with trio.move_on_at(self._save_at) as waiting:
                    first = await self._inbox.receive()
                if waiting.cancelled_caught:
                    self._commit(self._board.latest.state)
                else:
                    await self._take([first, *self._waiting()])
                self._rounds += 1
        if self._save_at < math.inf:
            self._commit(self._board.latest.state)

    def _waiting(self) -> list[Fact]:
        burst: list[Fact] = []
        while len(burst) < BURST - 1:
            try:
                burst.append(self._inbox.receive_nowait())
            except (trio.WouldBlock, trio.EndOfChannel):
                break
        return burst

    async def _take(self, burst: Sequence[Fact]) -> None:
        before = self._board.latest
        # 2. Step.
        world, orders, burst = decide(before, burst, self._crashes)
        self._have_owners_answered(partial(self._owners.narrow, world))
        # 3. Commit.
        if world is not before:
            self._write_down(burst)
        if world.state is not self._saved:
            if self._saved and may_be_saved_later(self._saved, world):
                self._save_at = min(self._save_at, trio.current_time() + SAVE_SECONDS)
            else:
                self._commit(world.state)
        # 4. Post.
        if world is not before:
            self._board.post(world)
            with self._crashes.contained(None, "count of starts"):
                self._board.starts.see(world)
        # 5. and 6. Tell, start the orders that cannot wait, let them be sent, and then start the rest.
        for key in {*losers(before, world), *joined(world, orders), *gainers(world, orders)}:
            self.correct(key)
        for key in gone(before, world):
            self.withdraw(key, EMPTY)
        is_answering = any(isinstance(order, AnswerStart) for order in orders)
        if self._saved and self._save_at < math.inf:
            bound = tuple(order for order in orders if needs_books(order, self._saved, world))
            if bound:
                # What needs no books need not wait for the disk either, and neither does the runtime that asked.
                self._start([order for order in orders if order not in bound])
                if is_answering:
                    await _turns(ANSWER_TURNS)
                self._commit(world.state)
                orders = bound
        # An answer waits for no record: the engine does nothing else for that container until it has started.
        waiting = [order for order in orders if isinstance(order, ApplyCpuset) and (order.live or is_answering)]
        hurried = [order for order in orders if order not in waiting]
        self._start(hurried)
        if hurried and waiting:
            await _turns(ANSWER_TURNS if is_answering else 1)
        self._start(waiting)
        if self._have_owners_answered(partial(self._owners.extend, self._saved)):
            self._report("owners", None)

    def _have_owners_answered(self, write: Callable[[], None]) -> bool:
        """Write what fronts answer to owners without the sidecar; return whether that is written."""
        problem = _UNEXPECTED
        with self._crashes.contained(None, "starts of owners"):
            try:
                write()
                problem = ""
            except StateError as error:
                problem = str(error)
        if problem:
            self._report("owners", f"what fronts answer to owners without the sidecar cannot be written: {problem}")
        return not problem

    def _start(self, orders: Sequence[Order]) -> None:
        """Tell what these orders take, and start them in turn; together, if nothing is to be announced in between."""
        self._withdraw_many([each for order in orders for each in taken(self._board.latest, order)])
        together: list[Order] = []
        for order in orders:
            match order:
                case AnswerStart(update=update) if update is not None:
                    self.withdraw(order.container, update.cpus)
                    self.begin(order.container)
                case StartTimer(purpose=Purpose.GRACE, seconds=seconds):
                    self._start_orders(together)
                    together = []
                    self.announce(order.container, grace_seconds=seconds)
                case SendSignal():
                    # The end of a grace is told with it, once that has begun.
                    self._start_orders(together)
                    together = []
                    self.announce(order.container)
                case _:
                    pass
            together.append(order)
        self._start_orders(together)

    def _withdraw_many(self, taken: Sequence[tuple[ContainerKey, CPUSet]]) -> None:
        """Withdraw what is taken from each of these: from all at once, and then what that left."""
        kept: dict[ContainerKey, CPUSet] = {}
        for key, cpus in taken:
            kept[key] = kept[key] & cpus if key in kept else cpus
        if len(kept) > 1:
            plain = {key.handle: key for key in kept if key.engine != HOST}
            with self._crashes.contained(None, "projections"):
                left = self._projections.withdraw_many([(handle, kept[key]) for handle, key in plain.items()])
                kept = {plain[handle]: kept[plain[handle]] for handle in left}
        for key, cpus in kept.items():
            self.withdraw(key, cpus)

    def _write_down(self, burst: Sequence[Fact]) -> None:
        problem: str | None = f"the journal cannot be written: {_UNEXPECTED}"
        with self._crashes.contained(None, "journal"):
            try:
                self._journal.append(burst)
                problem = None
            except StateUnwritable as error:
                problem = str(error)
        self._report("journal", problem)

    def _commit(self, state: State) -> None:
        self._save_at = math.inf
        if state == self._saved:
            self._saved = state
            return
        why = _UNEXPECTED
        with self._crashes.contained(None, "checkpoint"):
            try:
                why = self._checkpoints.save(state)
            except StateError as error:
                why = str(error)
        if not why:
            self._saved = state
        # Else it is tried again with the next burst.
        self._report("checkpoint", f"the recorded state is not saved: {why}" if why else None)

    def withdraw(self, container: ContainerKey, cpus: CPUSet) -> None:
        """Remove all CPUs but these from the files of a container that an unsent order places, or will at its birth.
        What is no unit of systemd has none, and is no container, has none.
        """
        if container.engine != HOST:
            self._tell(container, lambda: self._projections.withdraw(container.handle, cpus))

    def begin(self, container: ContainerKey) -> None:
        """Write the first files of a container that has none: its runtime is about to mount them, and waits for them.
        By id alone: names are claimed in their turn.
        """
        world = self._board.latest
        if world.settings.policy is not PolicyName.NONE and not world.is_releasing:
            self._tell(container, lambda: self._projections.begin(container.handle, self._projected(container)))

    def correct(self, container: ContainerKey) -> None:
        """Write what is true now into a container's files: some of its CPUs are open to others from now on, or it is
        about to have more.
        """
        self._tell(container, lambda: self._projections.correct(container.handle, self._projected(container)))

    def _projected(self, container: ContainerKey) -> Projection:
        world = self._board.latest
        return projection_of(world, world.containers[container])

    def _tell(self, container: ContainerKey, write: Callable[[], None]) -> None:
        with self._crashes.contained(container, "projection"):
            try:
                write()
            except StateError as error:
                self._report("projections", str(error))

    def announce(self, container: ContainerKey, *, grace_seconds: float | None = None) -> None:
        """Write into a workload's files what is leaving it, before a grace of this length begins or its signal is sent.

        The grace begins even if that fails: a full disk must not keep CPUs from other containers.
        """
        world = self._board.latest
        known = world.containers.get(container)
        if known is None:
            return
        try:
            with self._crashes.contained(container, "projection"):
                names, projection = names_of(world, known), projection_of(world, known)
                self._projections.announce(container.handle, names, projection, grace_seconds=grace_seconds)
        except StateError as error:
            is_told_nothing = grace_seconds is None
            notice = "is not told what changed" if is_told_nothing else "gets no notice of CPUs that are taken from it"
            self._log.warning(f"a workload {notice}", **{noun(container): known.view.name}, reason=error)
            self._report("projections", str(error))

    def _report(self, where: str, problem: str | None) -> None:
        if self._board.report(where, problem) and problem is not None:
            self._log.error(problem, where=where)


async def _turns(count: int) -> None:
    """Let all tasks go on that are due, this many times."""
    for _ in range(count):
        await trio.lowlevel.checkpoint()
