"""Performs orders, one task each, and reports every outcome as a fact.

The theory. The plan gives at most one order per container and only a few at once, so nothing is queued here: an order
starts when it is given. Its outcome is one of:

- answered well, and the kernel shows what was ordered: `CpusetApplied`;
- answered well, and the kernel shows something else: `CpusetFailed(INEFFECTIVE)` (cgroup v2 accepts a cpuset outside
 the parent's, and ignores it);
- refused, failed, lost or gone, by the adapter's error: `CpusetFailed`, and `RetryDue` after a pause.

Rules for changing this file: it decides nothing. It never repeats an order by itself: the world may have changed, so
the pause ends in a fact and the plan makes a new order. Once a request may have been sent, its outcome is awaited, even
while the daemon shuts down: that is the only shield here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Final

import trio

from sidecar.apply.hand_orders import HandOrders
from sidecar.backoff import Backoff
from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.container.line import Fault, FaultKind
from sidecar.decide.facts import (
    CpusetApplied,
    CpusetFailed,
    Fact,
    Failure,
    OrderDelayed,
    Purpose,
    RetryDue,
    StopFailed,
    TimerEnded,
    TopologyRead,
)
from sidecar.decide.hand_facts import WriteFailed
from sidecar.decide.orders import (
    AnswerStart,
    ApplyCpuset,
    HoldAnswers,
    LookAgain,
    Order,
    ReadTopology,
    SendSignal,
    StartTimer,
    StopContainer,
    WriteCpuset,
)
from sidecar.failures import ContainerGone, EngineError, EngineFailed, EngineLacks, EngineRefused, EngineUnavailable
from sidecar.host_ports import Kernel
from sidecar.log import Log, LogLevel
from sidecar.ports import Engine, Tickets
from sidecar.words.counts import named
from sidecar.words.hands import unverified
from sidecar.words.refusals import sentence
from sidecar.words.units import noun
from state.cpuset import EMPTY, CPUSet
from state.errors import StateError
from state.key import ContainerKey

LAST_ANSWER_SECONDS: Final = 5.0
"""How long a shutdown waits for the answer to an order already sent. A container's start blocks an order for 0.2 s."""

DELAYED_SECONDS: Final = 0.25
"""Seconds after which an order counts as late, and its slot is free. A start, which blocks an order, takes 0.2 s; any
other user of a container's lock, a slow copy for instance, may hold it without end.
"""

REFUSED_PAUSE: Final = 30.0
"""Seconds before an update that the engine refused is tried again: only a change of the machine can make it valid."""


_UNEXPECTED: Final = "the sidecar failed unexpectedly: the log has the error"


class Executor:
    """Starts orders as tasks of `nursery`; `look` requests a look at a container, `answer` lets a held start go on, and
    `hand` carries out what needs no engine.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        board: Board,
        outbox: trio.MemorySendChannel[Fact],
        *,
        engine: Engine,
        kernel: Kernel,
        tickets: Tickets,
        look: Callable[[ContainerKey], None],
        answer: Callable[[AnswerStart], None],
        hand: HandOrders,
        rng: random.Random,
        log: Log,
    ) -> None:
        self._nursery = nursery
        self._board = board
        self._outbox = outbox
        self._engine = engine
        self._kernel = kernel
        self._tickets = tickets
        self._look = look
        self._answer = answer
        self._hand = hand
        self._rng = rng
        self._log = log
        self._crashes = Crashes(board, log)
        self._pauses: dict[ContainerKey, Backoff] = {}
        self._shields: set[trio.CancelScope] = set()
        self._unanswered: set[int] = set()
        self._is_stopping = False

    def stop(self) -> None:
        """Start no more orders, and wait at most `LAST_ANSWER_SECONDS` for the last answers."""
        self._is_stopping = True
        for shield in self._shields:
            shield.deadline = trio.current_time() + LAST_ANSWER_SECONDS
        self._nursery.cancel_scope.cancel()

    def start_all(self, orders: Sequence[Order]) -> None:
        """Begin orders in turn, without waiting; writes of cgroups that follow each other are one."""
        for is_write, group in groupby(orders, lambda each: isinstance(each, WriteCpuset)):
            each_kind = tuple(group)
            if not is_write or len(each_kind) == 1 or not self._wrote(each_kind):
                for order in each_kind:
                    self.start(order)

    def _wrote(self, orders: Sequence[Order]) -> bool:
        """Write cgroups at once. Return whether that was possible: if not, each is written by itself."""
        if self._is_stopping:
            return False
        with self._crashes.contained(None, "writes"):
            self._hand.write_many([each for each in orders if isinstance(each, WriteCpuset)])
            return True
        return False

    def start(self, order: Order) -> None:
        """Begin an order, without waiting. After `stop` it is dropped: the next daemon makes it again."""
        if self._is_stopping:
            return
        match order:
            case ApplyCpuset():
                self._nursery.start_soon(self._apply, order)
                self._nursery.start_soon(self._tell_if_late, order)
            case HoldAnswers():
                self._hand.hold(order)
            case WriteCpuset():
                self._write(order)
            case StopContainer():
                self._nursery.start_soon(self._stop, order)
            case StartTimer():
                self._nursery.start_soon(self.wait, order)
            case SendSignal():
                self._nursery.start_soon(self._signal, order)
            case AnswerStart():
                with self._crashes.contained(order.container, "answer"):
                    self._answer(order)
            case LookAgain():
                self._look(order.container)
            case ReadTopology():
                self._nursery.start_soon(self._read_topology)

    def _write(self, order: WriteCpuset) -> None:
        with self._crashes.contained(order.container, "write"):
            self._hand.write(order)
            return
        failed = WriteFailed(order.container, order.number, _UNEXPECTED, is_gone=False, ended=self._tickets())
        self._nursery.start_soon(self._outbox.send, failed)

    async def _apply(self, order: ApplyCpuset) -> None:
        if self._is_stopping:
            # Started an instant before the end, and not sent yet.
            return
        outcome = None
        self._unanswered.add(order.number)
        with trio.CancelScope(shield=True) as shield:
            self._shields.add(shield)
            with self._crashes.contained(order.container, "order"):
                outcome = await self._outcome(order)
            if outcome is None:
                # Unknown: it may have taken effect, as an order without an answer may.
                outcome = CpusetFailed(order.container, order.number, Failure.LOST, _UNEXPECTED, self._tickets())
            await self._outbox.send(outcome)
        self._shields.discard(shield)
        self._unanswered.discard(order.number)
        if outcome is None:
            return
        if isinstance(outcome, CpusetApplied) or outcome.failure is Failure.GONE:
            self._pauses.pop(order.container, None)
            return
        with self._crashes.contained(order.container, "order"):
            self._log_failure(order, outcome)
        await trio.sleep(self._pause(order.container, outcome.failure))
        await self._outbox.send(RetryDue(order.container, order.number))

    def _log_failure(self, order: ApplyCpuset, outcome: CpusetFailed) -> None:
        fields = {
            noun(order.container): self._name(order.container),
            "cpus": order.update.cpus,
            "failure": outcome.failure,
            "reason": outcome.reason,
        }
        # CPUs that went offline are told once for the machine, and the next decision is without them.
        is_hotplug = outcome.effective is not None and bool(self._offline(order, outcome.effective))
        is_usual = is_hotplug or (outcome.failure is not Failure.LOST and self._has_ended(order))
        if outcome.failure is Failure.INEFFECTIVE and (known := self._board.latest.containers.get(order.container)):
            # Each retry has the same reason.
            is_usual |= known.fault == Fault(FaultKind.INEFFECTIVE, outcome.reason)
        self._log.say(LogLevel.DEBUG if is_usual else LogLevel.WARNING, "an order failed", fields)

    async def _tell_if_late(self, order: ApplyCpuset) -> None:
        await trio.sleep(DELAYED_SECONDS)
        if order.number in self._unanswered:
            await self._outbox.send(OrderDelayed(order.container, order.number))

    async def _outcome(self, order: ApplyCpuset) -> CpusetApplied | CpusetFailed:
        try:
            await self._engine.update(order.container.id, order.update)
        except EngineError as error:
            return CpusetFailed(order.container, order.number, _failure(error), str(error), self._tickets())
        try:
            effective = self._effective(order) if order.live else None
        except StateError as error:
            return CpusetFailed(order.container, order.number, Failure.LOST, str(error), self._tickets())
        if effective is not None and effective != order.update.cpus:
            reason = self._why_ineffective(order, effective)
            return CpusetFailed(order.container, order.number, Failure.INEFFECTIVE, reason, self._tickets(), effective)
        return CpusetApplied(order.container, order.number, effective, self._tickets())

    def _why_ineffective(self, order: ApplyCpuset, effective: CPUSet) -> str:
        container = self._board.latest.containers.get(order.container)
        if container and (unreadable := self._kernel.why_unreadable(container.view)):
            return unverified(container.view.name, order.update.cpus, unreadable)
        if offline := self._offline(order, effective):
            why = f"{named(offline)} went offline"
        else:
            why = f"the kernel shows {effective}{self._above(order)}"
        return f"the engine accepted {named(order.update.cpus)}, but {why}"

    def _has_ended(self, order: ApplyCpuset) -> bool:
        """Return whether it ran when it was ordered to move, and runs no more: engines have errors for that."""
        with suppress(StateError):
            return order.live and self._effective(order) is None
        return False

    def _effective(self, order: ApplyCpuset) -> CPUSet | None:
        container = self._board.latest.containers.get(order.container)
        return self._kernel.effective_cpus(container.view) if container else None

    def _offline(self, order: ApplyCpuset, effective: CPUSet) -> CPUSet:
        """Return the CPUs that the container lacks only because they are offline now; EMPTY if others are missing."""
        try:
            online = self._kernel.online()
        except StateError:
            return EMPTY
        return order.update.cpus - online if effective == order.update.cpus & online else EMPTY

    def _above(self, order: ApplyCpuset) -> str:
        """Return which cgroup confines the container further, as the end of a sentence; "" if none."""
        container = self._board.latest.containers.get(order.container)
        return self._kernel.confinement(container.view, order.update.cpus) if container else ""

    def _pause(self, container: ContainerKey, failure: Failure) -> float:
        if failure is Failure.REFUSED:
            return REFUSED_PAUSE
        if container not in self._pauses:
            self._pauses[container] = Backoff(self._rng, first=0.2, most=30.0)
        return self._pauses[container].pause()

    async def _stop(self, order: StopContainer) -> None:
        with self._crashes.contained(order.container, "stop"):
            name, reason = self._name(order.container), sentence(order.refusal)
            self._log.warning("stopping a container: its CPUs are not available", container=name, reason=reason)
        failed: EngineError | None = EngineFailed(_UNEXPECTED)
        with self._crashes.contained(order.container, "stop"):
            failed = await self._why_not_stopped(order.container)
        if failed is not None:
            # The decision answers a failure with the next attempt.
            await trio.sleep(self._pause(order.container, _failure(failed)))
            await self._outbox.send(StopFailed(order.container, f"it cannot be stopped: {failed}"))
            return
        self._pauses.pop(order.container, None)

    async def _why_not_stopped(self, container: ContainerKey) -> EngineError | None:
        """Stop a container. Return the error if that failed; None if it is stopped or gone."""
        try:
            await self._engine.stop(container.id)
        except ContainerGone:
            return None
        except EngineError as error:
            return error
        return None

    async def wait(self, order: StartTimer) -> None:
        """Wait for the timer, and report its end, unless it is about a newcomer that is gone."""
        await trio.sleep(order.seconds)
        if order.purpose is Purpose.RECORD and order.container not in self._board.latest.containers:
            return
        await self._outbox.send(TimerEnded(order.container, order.purpose, order.number))

    async def _signal(self, order: SendSignal) -> None:
        with self._crashes.contained(order.container, "signal"):
            try:
                await self._engine.signal(order.container.id, order.signal)
            except ContainerGone:
                return
            except EngineError as error:
                whose = {noun(order.container): self._name(order.container)}
                self._log.warning("a signal was not delivered", **whose, signal=order.signal, reason=error)

    async def _read_topology(self) -> None:
        with self._crashes.contained(None, "reading of the machine"):
            try:
                topology = await trio.to_thread.run_sync(self._kernel.topology)
            except StateError as error:
                self._log.error("the machine's topology cannot be read", reason=error)
                return
            await self._outbox.send(TopologyRead(topology))

    def _name(self, container: ContainerKey) -> str:
        known = self._board.latest.containers.get(container)
        return known.view.name if known else container.short


def _failure(error: EngineError) -> Failure:
    match error:
        case ContainerGone():
            return Failure.GONE
        case EngineRefused() | EngineLacks():
            return Failure.REFUSED
        case EngineFailed():
            return Failure.FAILED
        case EngineUnavailable():
            return Failure.LOST
        case _:
            return Failure.LOST
