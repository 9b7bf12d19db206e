"""What tasks need of the edges, as Protocols. Adapters in `engines`, `host`, `commit` and `projection` satisfy them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

import msgspec

from sidecar.astray import Astray
from sidecar.decide.books.load_sample import Usage
from sidecar.decide.facts import ContainerView, EngineInfo, Fact
from sidecar.decide.orders import Order, Update
from state.cpuset import CPUSet
from state.model import State
from state.projection import Projection
from state.topology import Topology


class EngineEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A hint that a container changed; what it is now must be looked up.

    `container` is the engine's full id. `action` is in Docker's words (create, start, die, pause, unpause, update,
    rename, destroy, ...); `time_nano` is the engine's clock in nanoseconds. `is_gap` marks the one event that says:
    some were lost here; look at everything.
    `view` comes with a `create` where the adapter looked at once: a container that is about to be started is locked
    within milliseconds, and a look that comes later waits for the whole start.
    """

    container: str
    action: str
    time_nano: int
    is_gap: bool = False
    view: ContainerView | None = None


class Engine(Protocol):
    """A container engine. Every method may raise EngineUnavailable; each is bounded in time by the adapter.

    It goes by its own ids: what it shows says whose they are.
    """

    @property
    def name(self) -> str:
        """What the engine calls itself, as in `info` and in every view; "" before anything was asked of it."""

    async def info(self) -> EngineInfo:
        """Who answers, and what it can do. EngineLacks where it cannot do what the sidecar needs."""

    async def containers(self) -> tuple[str, ...]:
        """The full ids of all containers, stopped ones too."""

    async def inspect(self, container: str) -> ContainerView:
        """The engine's view of one container (`effective` is None). ContainerGone if it is not there."""

    async def glance(self, container: str) -> ContainerView:
        """Who a container is, by what can be had without its lock, which a start holds: name, phase, labels, mounts; no
        CPUs and no limits (`is_glance`). ContainerGone if it is not there.
        """

    async def update(self, container: str, update: Update) -> None:
        """Change CPUs and quota in one call. ContainerGone, EngineRefused, EngineFailed, EngineLacks."""

    async def stop(self, container: str) -> None:
        """Stop a container, with its own grace. ContainerGone, EngineFailed."""

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal by its name (`HUP`) to a container's first process. ContainerGone, EngineFailed.

        EngineRefused where it does not run, and where sending it would change more than that: the reason says the cure.
        """

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
        """The event stream: subscribed when entered. Iterating raises EngineUnavailable when the stream ends."""


class Kernel(Protocol):
    """The kernel's files on this host."""

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Where a container may really run; None where it runs nothing, or that cannot be read. One that the engine
        calls exited may run all the same.
        """

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        """Which cgroup above a live container keeps it from some of these CPUs, as the end of a sentence; "" if
        none does.
        """

    def topology(self) -> Topology:
        """The machine as it is now. StateError if it cannot be understood."""

    def online(self) -> CPUSet:
        """The CPUs that are online now, read in one short file. StateError if it cannot be."""

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        """Undo what CPUs that went leave behind on cgroup v1, where the kernel takes them from every group for good:
        parents get the online CPUs back, and processes that fell out of their container's group return to it. What
        could not be mended; nothing to do, and nothing done, on v2.
        """


class Usages(Protocol):
    """What the kernel counts."""

    def usage(self, view: ContainerView) -> Usage | None:
        """What a live container has used so far; None where it is not live or cannot be read."""

    def retain(self, containers: Collection[str]) -> None:
        """Only these are asked about from now on: what is held for others is let go."""


class Checkpoints(Protocol):
    """Where the books survive."""

    def save(self, state: State) -> str:
        """Commit the books: on disk when this returns. Why they are not where they belong, "" where they are.
        StateError: what was committed before stands.
        """


class Journals(Protocol):
    """Where every burst of facts is written down, so that the decisions can be replayed."""

    def append(self, facts: Sequence[Fact]) -> None:
        """Write a burst as one line. StateUnwritable: the journal lacks it."""


class Telling(Protocol):
    """The part of the projections that comes before an order, by containers' ids. Both are local writes, and raise
    StateError.
    """

    def withdraw(self, container: str, cpus: CPUSet) -> None:
        """Let a container's files name no CPU outside `cpus`."""

    def announce(
        self, container: str, names: Iterable[str], projection: Projection, *, begins_grace: bool = False
    ) -> None:
        """Tell a container this before a signal is sent; or, with `begins_grace` and anew, before its grace begins."""


class Acknowledgeable(Protocol):
    """The part of the projections in which workloads answer, by containers' ids."""

    def awaited(self, container: str, leaving: CPUSet) -> range:
        """Any of these generations acknowledges that the container left these CPUs; none if it was not told of them."""

    def directories(self, container: str) -> AbstractContextManager[tuple[int, ...]]:
        """Descriptors of the directories in which the container may acknowledge, open for the length of the block."""


Tickets = Callable[[], int]
"""Draws the next ticket: by them looks and outcomes are ordered."""

StartOrder = Callable[[Order], None]
"""Starts an order, and never waits."""
