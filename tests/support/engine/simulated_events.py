"""The simulated engine's events: a short memory, slow readers that lose some, and faults in the order of delivery.

As on Docker: the ring holds the last 256 events of every kind; a reader is buffered 1024 deep, and after that each
event waits 100 ms for it, while the container's lock is held, and is then dropped in silence.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final

import msgspec
import trio

from sidecar.failures import EngineUnavailable
from sidecar.ports import EngineEvent

RING: Final = 256
BUFFER: Final = 1024
PATIENCE_SECONDS: Final = 0.1


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How often chance strikes an event: 0 to 1 each."""

    lost: float = 0.0
    doubled: float = 0.0
    swapped: float = 0.0


class EventFaults:
    """What goes wrong with events: by chance, at `rates`, and on demand, for the next few events."""

    def __init__(self, chance: Random) -> None:
        self.rates = Rates()
        self.lose_next = 0
        self.double_next = 0
        self.swap_next = 0
        self._chance = chance

    def loses(self) -> bool:
        """Return whether this event is lost."""
        self.lose_next, due = max(0, self.lose_next - 1), self.lose_next > 0
        return due or self._chance.random() < self.rates.lost

    def doubles(self) -> bool:
        """Return whether this event comes twice."""
        self.double_next, due = max(0, self.double_next - 1), self.double_next > 0
        return due or self._chance.random() < self.rates.doubled

    def swaps(self) -> bool:
        """Return whether the next event of another container overtakes it."""
        self.swap_next, due = max(0, self.swap_next - 1), self.swap_next > 0
        return due or self._chance.random() < self.rates.swapped


class Subscription:
    """One reader's end of the stream."""

    def __init__(self, past: list[EngineEvent]) -> None:
        self._waiting = deque(past)
        self._ending: EngineUnavailable | None = None
        self._news = trio.Event()

    @property
    def is_full(self) -> bool:
        """Whether the engine has to wait for this reader."""
        return len(self._waiting) >= BUFFER

    def put(self, event: EngineEvent) -> None:
        """Buffer one event."""
        self._waiting.append(event)
        self._news.set()

    def end(self, reason: str) -> None:
        """End the stream, after what is buffered."""
        self._ending = EngineUnavailable(reason)
        self._news.set()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> EngineEvent:
        await trio.lowlevel.checkpoint()
        while not self._waiting:
            if self._ending is not None:
                raise self._ending
            self._news = trio.Event()
            await self._news.wait()
        return self._waiting.popleft()


class EventBus:
    """Publishes to every subscription, and remembers the last events."""

    def __init__(self, faults: EventFaults) -> None:
        self._faults = faults
        self._ring: deque[EngineEvent] = deque(maxlen=RING)
        self._subscriptions: list[Subscription] = []
        self._held: EngineEvent | None = None

    def subscribe(self, since_nano: int) -> Subscription:
        """Add a subscription: the ring's events since then, and all that follow. Noise is not delivered."""
        past = [event for event in self._ring if event.time_nano >= since_nano and event.action != NOISE]
        made = Subscription(past)
        self._subscriptions.append(made)
        return made

    def leave(self, subscription: Subscription) -> None:
        """Remove a reader."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    async def publish(self, event: EngineEvent) -> None:
        """Remember an event and deliver it; waits for slow readers, a little, one after the other."""
        self._ring.append(event)
        if event.action == NOISE or self._faults.loses():
            return
        held, self._held = self._held, None
        if held is None and self._faults.swaps():
            self._held = event
            return
        if held is not None and held.container == event.container:
            await self._deliver(held)  # one container's own events keep their order
            held = None
        for _ in range(2 if self._faults.doubles() else 1):
            await self._deliver(event)
        if held is not None:
            await self._deliver(held)

    def end_all(self, reason: str, *, forget: bool) -> None:
        """End every stream; a restart of the engine also forgets the ring."""
        self._held = None
        for subscription in self._subscriptions:
            subscription.end(reason)
        self._subscriptions.clear()
        if forget:
            self._ring.clear()

    async def _deliver(self, event: EngineEvent) -> None:
        for subscription in list(self._subscriptions):
            if subscription.is_full:
                await trio.sleep(PATIENCE_SECONDS)
            if not subscription.is_full:
                subscription.put(event)


NOISE: Final = "exec_start"
"""An event that takes a place in the ring and is filtered out of the streams."""
