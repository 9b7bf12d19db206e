"""The engine's event stream, indefinitely: subscribe, take an inventory, follow; reconnect when it ends.

Events are only hints that a container changed. The reader only requests a look: an engine drops events for slow
readers, and holds its own containers' locks while it waits for them.

If a new container's event comes with a view, that is the first look. For a known container the view may be outdated, so
the container is looked at again. Events of one that asks for nothing may not come before it has lasted (`newcomers`).

An event about an update by the engine is mostly the echo of an order that is just being answered; the task that awaits
the answer looks at a container with an outstanding order.

A silent stream may be that of a hanging engine: it is given up when an inventory gets no answer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Final

import trio

from sidecar.backoff import Backoff
from sidecar.board import Board
from sidecar.decide.facts import EngineConnected, EngineDisconnected, EngineInfo, Fact
from sidecar.failures import EngineError, EngineUnavailable
from sidecar.log import Log, LogLevel
from sidecar.observe.looks import Looker
from sidecar.ports import REMOVED, RUNS, UPDATED, Engine, EngineEvent, Tickets
from state.key import ContainerKey

BLIND_SECONDS: Final = 1.0
"""Seconds between two tries at most, where containers start while the engine's service is away."""

LONGEST_RECONNECT_SECONDS: Final = 10.0
"""Seconds between two tries at most: nothing is heard of the engine meanwhile."""

FIRST_QUIET_SECONDS: Final = 5.0
"""After the first warning: longer than a restart of an engine mostly takes."""

MOST_QUIET_SECONDS: Final = 60.0
"""Between two warnings of an engine that stays away."""


class Sparingly:
    """When a fault that lasts is worth a line: at once, then after pauses that double, up to a minute.

    An engine that restarts fails in several ways within a second; the first is the news, and `status` has the last.
    """

    def __init__(self) -> None:
        self._due = -math.inf
        self._pause = FIRST_QUIET_SECONDS

    def is_due(self, now: float) -> bool:
        """Return whether to say it `now`, in seconds of a steady clock; if so, the next time is later."""
        if now < self._due:
            return False
        if now - self._due > MOST_QUIET_SECONDS:
            # Nothing failed for as long as the longest pause: this is another fault.
            self._pause = FIRST_QUIET_SECONDS
        self._due = now + self._pause
        self._pause = min(MOST_QUIET_SECONDS, self._pause * 2)
        return True


async def follow_events(
    engine: Engine,
    board: Board,
    looker: Looker,
    outbox: trio.MemorySendChannel[Fact],
    *,
    tickets: Tickets,
    rng: random.Random,
    log: Log,
    see_that_alone: Callable[[EngineInfo], None] = lambda _: None,
    name: str = "",
) -> None:
    """Follow the stream until cancelled. A lost connection is a fact, not a death.

    `see_that_alone` raises AlreadyRunning if another sidecar manages the engine that answers. `name` is the engine's
    own on a host with several; "" for an only one, which may be any.
    """
    place = f"engine {name}" if name else "engine"
    backoff, longest = Backoff(rng, first=0.1, most=LONGEST_RECONNECT_SECONDS), math.inf
    warnings, heard_from = Sparingly(), math.inf
    while True:
        try:
            asked_at = trio.current_time()
            info = await engine.info()
            if name and info.name != name:
                raise EngineUnavailable(f"{info.name} answers where {name} should")
            see_that_alone(info)
            longest = math.inf if info.traits.needs_service else BLIND_SECONDS
            async with engine.events(looker.newcomers.keeps_back) as events:
                log.info("connected", engine=info.name, version=info.version, api=info.api_version)
                board.heard[info.name] = asked_at
                await outbox.send(EngineConnected(info, tickets()))
                board.report(place, None)
                looker.newcomers.forget()
                looker.look_at_everything()
                heard_from = trio.current_time()
                with looker.while_answered():
                    async for event in events:
                        backoff.reset()
                        if event.crash:
                            board.crashes += 1
                            log.error("an event cannot be read: the sidecar failed unexpectedly", error=event.crash)
                        _hear(event, info.name, board, looker)
        except EngineError as error:
            if trio.current_time() - heard_from >= LONGEST_RECONNECT_SECONDS:
                # Nothing happened, and something on the way ends what is silent.
                backoff.reset()
            heard_from = math.inf
            board.report(place, str(error))
            await outbox.send(EngineDisconnected(str(error), name))
            pause = min(backoff.pause(), longest)
            level = LogLevel.WARNING if warnings.is_due(trio.current_time()) else LogLevel.DEBUG
            told = {"engine": name} if name else {}
            next_try = {"reason": error, "next_try_seconds": round(pause, 2)}
            log.say(level, "the engine cannot be reached", {**told, **next_try})
            await trio.sleep(pause)


def _hear(event: EngineEvent, engine: str, board: Board, looker: Looker) -> None:
    container = ContainerKey(engine, event.container)
    if event.is_gap:
        looker.look_at_everything()
    elif event.action in REMOVED:
        looker.removed(container)
    elif event.view is not None and container not in board.latest.containers:
        looker.seen(event.view)
    elif event.action == UPDATED:
        if not _awaits_an_answer(board, container):
            looker.hints.changed(container)
    elif event.action in RUNS and not looker.newcomers.waits(container):
        looker.hints.hear(container)
    else:
        looker.look(container)


def _awaits_an_answer(board: Board, container: ContainerKey) -> bool:
    known = board.latest.containers.get(container)
    return known is not None and known.order is not None
