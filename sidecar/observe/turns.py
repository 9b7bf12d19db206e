"""Turns: how many looks are under way at once, and how often a costly one is repeated.

1. A look waits for the container's lock in the engine as long as another program holds it: a start, or a slow copy. A
   place is for a look that is answered soon. After `PLACE_SECONDS` the look is *late*: it goes on without a place.
   Containers whose last look was late have places of their own. So however many locks are held, no other container
   waits for its turn.
2. What a container's author wrote decides how much the engine has to tell of it. So an answer that took long is not
   asked for again before it has rested for `REST_FACTOR` times as long, unless there is news. So does the list of all
   containers. Where news was lost, nothing else shows what came meanwhile: then it rests as long as it took.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Generic, TypeVar

import trio

from state.key import ContainerKey

PLACES: Final = 16
"""Looks at once that are not late; and as many at containers whose last look was late."""

PLACE_SECONDS: Final = 0.5
"""How long a look has its place. An inspect takes a millisecond; during a start, 0.2 s more."""

REST_FACTOR: Final = 10
"""So what is costly takes at most a tenth of the engine's time."""

OWED_SECONDS: Final = 0.1
"""At least so long until the next inventory, if one was taken without a list."""

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


class ListTurns:
    """When the list of all containers is asked for again (2)."""

    def __init__(self) -> None:
        self._ended = -math.inf
        self._took = 0.0
        self.has_lost_news = self._is_owed = False
        """Whether containers may have come or gone of which nothing told since the last list began."""

    def lose_news(self) -> None:
        """Take it that containers may have come or gone of which nothing told since the last list began."""
        self.has_lost_news = True

    def is_due(self) -> bool:
        """Return whether to ask for it now. If not, it is owed."""
        self._is_owed = self._left() > 0
        return not self._is_owed

    def owed_in(self) -> float:
        """Return in how many seconds it is owed; infinity if it is not."""
        return max(self._left(), OWED_SECONDS) if self._is_owed else math.inf

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Ask for it in the block; its rest begins when it is there."""
        began, had_lost_news, self.has_lost_news = trio.current_time(), self.has_lost_news, False
        try:
            yield
        except BaseException:
            self.has_lost_news = self.has_lost_news or had_lost_news
            raise
        self._ended, self._is_owed = trio.current_time(), False
        self._took = self._ended - began

    def _left(self) -> float:
        factor = 1 if self.has_lost_news else REST_FACTOR
        return max(0.0, self._ended + factor * self._took - trio.current_time())
