"""Newcomers that are not looked at yet: most containers that come by the dozen are gone before anything must be known.

1. Where newborns may run that are not known is known: they are one container of the World, which the hand confines. So
   a container that asks for nothing, as its creation tells, is first looked at once it has lasted. Until then its
   events are kept back where they are read, and one that is removed before never comes into the World.
2. That holds for births that the hand has answered. If there is none soon after the creation, or if it starts without
   one, it is looked at: it may be born where the hand does not watch. So are all of them when the hand is lost.
3. What tells that it is more than it seemed ends the wait: CPUs of its own from its runtime, an update, a pause, a
   name. One whose runtime asks before it starts is known from its question.
4. A container that comes alone is looked at at once, so that its status and its projection are there as soon as ever:
   only those wait that come beside several others.
5. An inventory leaves out those that wait, and what was looked at does not wait. So a removal that is not told
   contradicts nothing.

`keeps_back` belongs to the thread that reads the engine's events, everything else to trio's. A wait begins and is ended
by a removal in the one, and is ended by a look in the other; the operations of a dict are atomic.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

import msgspec
import trio

from sidecar.board import Board
from sidecar.decide.facts import ContainerView
from sidecar.decide.moves.plain import is_told_plain
from sidecar.observe.brief import BRIEF_SECONDS, MOST_SECONDS
from sidecar.ports import CREATED, REMOVED, RUNS, EngineEvent
from state.key import ContainerKey

BIRTH_SECONDS: Final = 1.0
"""How long the birth of a created container is waited for: a busy host needs a second from the one to the other, and a
client that takes longer has mostly created it for later.
"""

FEW: Final = 4
"""So many creations within `CROWD_SECONDS` are looked at at once: a person's, or a small project's."""

CROWD_SECONDS: Final = 5.0

_TICK_SECONDS: Final = 0.5
"""Between two rounds of what is due, while any wait: no newcomer needs a task or a timer of its own."""

_CALM_ROUNDS: Final = 10
"""So many rounds go on while none wait: while newcomers come one after the other, none has to wake the rounds."""


class _Unmet(msgspec.Struct):
    """A container that waits; times are in seconds of trio's clock. `heard` counts the starts and ends that were kept
    back, `noticed` those that the rounds have seen; `due` is None until the first round.
    """

    is_born: bool = False
    heard: int = 0
    noticed: int = 0
    due: float | None = None
    latest: float = math.inf


class Newcomers:
    """Asks for the first look at containers that were just created, by `look`. `is_looked_at` tells at which a look is
    under way, or has ended before the World knows them.
    """

    def __init__(
        self,
        board: Board,
        look: Callable[[ContainerKey], None],
        is_looked_at: Callable[[ContainerKey], bool],
        engine: Callable[[], str],
    ) -> None:
        """Make it; `engine` is the name of the engine whose containers they are."""
        self._board = board
        self._engine = engine
        self._look = look
        self._is_looked_at = is_looked_at
        self._waiting: dict[ContainerKey, _Unmet] = {}
        self._last = deque[int](maxlen=FEW)
        """The engine's time of the last creations, in nanoseconds."""
        self._trio = trio.lowlevel.current_trio_token()
        self._first = trio.Event()
        self._is_at_rest = True

    def keeps_back(self, event: EngineEvent, told: ContainerView | None) -> bool:
        """Return whether an event is kept back (KeepsBack)."""
        if event.action == CREATED:
            return self._is_crowded(event) and told is not None and self._begins_to_wait(told)
        key = ContainerKey(self._engine(), event.container)
        wait = self._waiting.get(key)
        if wait is None or key in self._board.latest.containers:
            return False
        if event.action in REMOVED:
            return self._waiting.pop(key, None) is not None
        if event.action in RUNS and wait.is_born:
            wait.heard += 1
            return True
        return False

    def waits(self, container: ContainerKey) -> bool:
        """Return whether this container waits."""
        return container in self._waiting

    def without_waiting(self, containers: Collection[ContainerKey]) -> list[ContainerKey]:
        """Return those of these containers that do not wait."""
        return [each for each in containers if each not in self._waiting]

    def born(self, container: ContainerKey, *, is_answered: bool) -> bool:
        """Hear of a birth, and whether the hand answered it. Return whether the container waited."""
        wait = self._waiting.get(container)
        if wait is None:
            return False
        if is_answered:
            wait.is_born, wait.due = True, min(trio.current_time() + MOST_SECONDS, wait.latest)
        else:
            self._look(container)
        return True

    def pinned(self, container: ContainerKey) -> None:
        """Hear that its runtime gave a newborn CPUs of its own."""
        if container in self._waiting:
            self._look(container)

    def answered(self, container: ContainerKey) -> None:
        """End the wait of a container: a look begins now."""
        self._waiting.pop(container, None)

    def forget(self) -> None:
        """End all waits: everything is looked at now."""
        self._waiting.clear()

    def look_at_all(self) -> None:
        """End all waits by looks: births are not answered any more."""
        for container in list(self._waiting):
            self._look(container)

    async def run(self) -> None:
        """Ask for the looks that are due, until cancelled."""
        while True:
            self._first, self._is_at_rest = trio.Event(), True
            if not self._waiting:
                await self._first.wait()
            self._is_at_rest = False
            calm = 0
            while calm < _CALM_ROUNDS:
                await trio.sleep(_TICK_SECONDS)
                calm = 0 if self._waiting else calm + 1
                self._look_at_due()

    def _is_crowded(self, event: EngineEvent) -> bool:
        began = self._last[0] if len(self._last) == FEW else None
        self._last.append(event.time_nano)
        return began is not None and event.time_nano - began < CROWD_SECONDS * 1e9

    def _begins_to_wait(self, told: ContainerView) -> bool:
        if self._is_looked_at(told.key) or not is_told_plain(self._board.latest, told):
            return False
        self._waiting[told.key] = _Unmet()
        if self._is_at_rest:
            with suppress(trio.RunFinishedError):
                self._trio.run_sync_soon(self._end_rest, idempotent=True)
        return True

    def _end_rest(self) -> None:
        self._first.set()

    def _look_at_due(self) -> None:
        now, hand = trio.current_time(), self._board.latest.hand
        is_answering = hand is not None and hand.is_answering
        for container, wait in list(self._waiting.items()):
            if wait.due is None:
                wait.due = now + BIRTH_SECONDS
            if wait.heard != wait.noticed:
                wait.noticed, wait.latest = wait.heard, min(wait.latest, now + MOST_SECONDS)
                wait.due = min(now + BRIEF_SECONDS, wait.latest)
            if wait.due <= now or not is_answering:
                self._look(container)
