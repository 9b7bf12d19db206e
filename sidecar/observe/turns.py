"""Turns: how many looks are under way at once, and how often a costly one is repeated.

1. A look waits for the container's lock in the engine as long as another program holds it: a start, or a slow copy. A
   place is for a look that is answered soon. After `PLACE_SECONDS` the look is *late*: it goes on without a place.
   Containers whose last look was late have places of their own. So however many locks are held, no other container
   waits for its turn.
2. What a container's author wrote decides how much the engine has to tell of it. So an answer that took long is not
   asked for again before it has rested for `REST_FACTOR` times as long, unless there is news.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final, Generic, TypeVar

import trio

from state.key import ContainerKey

PLACES: Final = 16
"""Looks at once that are not late; and as many at containers whose last look was late."""

PLACE_SECONDS: Final = 0.5
"""How long a look has its place. An inspect takes a millisecond; during a start, 0.2 s more."""

REST_FACTOR: Final = 10
"""So what is costly takes at most a tenth of the engine's time."""

K = TypeVar("K")


class Turns:
    """Gives looks their turns (1). Its tasks run in `nursery`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._late: set[ContainerKey] = set()
        self._places = {is_late: trio.CapacityLimiter(PLACES) for is_late in (False, True)}

    @asynccontextmanager
    async def taken(self, container: ContainerKey, tell_late: Callable[[], None]) -> AsyncIterator[None]:
        """Wait for a place, and run the block in it. `tell_late` is called when the look is late; at once if the last
        one was.
        """
        was_late, owner = container in self._late, object()
        places, timer = self._places[was_late], trio.CancelScope()
        if was_late:
            tell_late()
        await places.acquire_on_behalf_of(owner)
        ends = timer.deadline = trio.current_time() + PLACE_SECONDS

        async def end_in_time() -> None:
            with timer:
                await trio.sleep_forever()
            places.release_on_behalf_of(owner)
            if trio.current_time() >= ends:
                self._late.add(container)
                tell_late()

        self._nursery.start_soon(end_in_time)
        try:
            yield
        finally:
            timer.cancel()
            if trio.current_time() < ends:
                self._late.discard(container)

    def forget_all_but(self, containers: Iterable[ContainerKey]) -> None:
        """Forget which looks at other containers were late: these containers do not exist any more."""
        self._late.intersection_update(containers)


class Rests(Generic[K]):
    """What was asked for lately, and rests (2)."""

    def __init__(self) -> None:
        self._until: dict[K, float] = {}

    def begin(self, what: K, seconds: float) -> None:
        """Begin the rest of something that took so long just now."""
        self._until[what] = trio.current_time() + REST_FACTOR * seconds

    def is_over(self, what: K) -> bool:
        """Return whether something may be asked for again."""
        return self.left(what) == 0

    def left(self, what: K) -> float:
        """Return how many seconds of its rest are left."""
        return max(0.0, self._until.get(what, -math.inf) - trio.current_time())

    def forget_all_but(self, those: Iterable[K]) -> None:
        """Forget all others."""
        kept = set(those)
        self._until = {each: until for each, until in self._until.items() if each in kept}
