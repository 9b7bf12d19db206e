"""The latest World, for readers: one attribute, one "changed" event. And the problems that people should know of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import msgspec
import trio

from sidecar.decide.world import World
from sidecar.starts_around import StartsAround
from sidecar.words.units import HostConfinement
from state.key import ContainerKey

ProblemText = str | Callable[[World], str]
"""A clause for people. One that is about containers is made from the World that it is shown with: it has their present
names, and is "" once they are gone.
"""


class BirthCounts(msgspec.Struct, frozen=True):
    """Births below watched parents that were `answered` at once, and those `unanswered`, into whose groups nothing was
    written; and how often another program's write into a guarded group was `overwritten`.
    """

    answered: int = 0
    unanswered: int = 0
    overwritten: int = 0


class HookCounts(msgspec.Struct, frozen=True):
    """How often hooks were told since the daemon began, how often that failed, and the changes that they missed."""

    runs: int = 0
    failures: int = 0
    missed: int = 0


class SampledDisturbance(msgspec.Struct, frozen=True):
    """What was sampled of a container's CPUs since the daemon began.

    Others ran there for `foreign` seconds by kind, of `of_seconds` of all its CPUs together, and a hypervisor took
    `stolen`. Samples that were `incomplete` are in none of these.
    """

    name: str
    foreign: Mapping[str, float] = {}
    stolen: float = 0.0
    of_seconds: float = 0.0
    incomplete: int = 0


class Board:
    """Only the allocator posts to it. Readers get a frozen value: read `latest` once, and use that."""

    def __init__(self, world: World) -> None:
        self.latest = world
        self._problems: dict[str, ProblemText] = {}
        self.vouched_at: float | None = None
        """When the daemon last vouched for the latest World, in seconds since 1970; None before the first time."""
        self.heard: dict[str, float] = {}
        """When each engine was last asked something that it answered, in seconds of trio's clock."""
        self.births = BirthCounts()
        """What the hand did since the daemon began."""
        self.disturbances: Mapping[ContainerKey, SampledDisturbance] = {}
        """What disturbed owners, as far as it is sampled."""
        self.hooks = HookCounts()
        """What became of hooks."""
        self.starts = StartsAround()
        """The starts that went around the front."""
        self.host: HostConfinement | None = None
        """Whether the host's own processes are confined; None if that is not asked for."""
        self.crashes = 0
        """Unexpected errors that were contained since the daemon began."""
        self._changed = trio.Event()
        self._count = 1

    def post(self, world: World) -> None:
        """Show a new world, and wake the readers that wait for one."""
        self.latest = world
        self._wake()

    @property
    def problems(self) -> dict[str, str]:
        """The present problems, by their place."""
        told = ((where, each if isinstance(each, str) else each(self.latest)) for where, each in self._problems.items())
        return {where: text for where, text in told if text}

    def tell_host(self, told: HostConfinement) -> None:
        """Show what is true of the host's own processes, and wake readers if that is news."""
        if self.host != told:
            self.host = told
            self._wake()

    def tell_fronts(self, asking: frozenset[tuple[str, str]], passing: frozenset[tuple[str, str]]) -> None:
        """Hear which fronts are recorded on this host, and wake readers if that changes what is counted."""
        if self.starts.recorded(asking, passing, self.latest):
            self._wake()

    def tell_begun(self, ids: Iterable[str]) -> None:
        """Hear which containers began by what was written down for fronts, and wake readers as above."""
        if self.starts.began(ids, self.latest):
            self._wake()

    def report(self, where: str, problem: ProblemText | None) -> bool:
        """Record the problem of a place, or None once it is solved. Return whether that is news."""
        if self._problems.get(where) == problem:
            return False
        if problem is None:
            del self._problems[where]
        else:
            self._problems[where] = problem
        self._wake()
        return True

    def worlds(self) -> AsyncIterator[World]:
        """Yield the latest world, and again after each change; a slow reader sees the newest, not every one."""
        return _Worlds(self)

    @property
    def count(self) -> int:
        """How many changes there were."""
        return self._count

    async def changed_since(self, count: int) -> int:
        """Wait until there were more than `count` changes. Return how many there were."""
        while self._count == count:
            await self._changed.wait()
        return self._count

    def _wake(self) -> None:
        self._count += 1
        self._changed.set()
        self._changed = trio.Event()


class _Worlds:
    """An iterator rather than a generator: readers may leave it half-way, and there is nothing to clean up."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._count = 0

    def __aiter__(self) -> _Worlds:
        return self

    async def __anext__(self) -> World:
        self._count = await self._board.changed_since(self._count)
        return self._board.latest
