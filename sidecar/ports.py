"""What tasks need from the edges, as Protocols. Adapters in `engines`, `host`, `commit`, `projection` satisfy them."""

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
    """A hint that a container changed; its present state must be looked up.

    `container` is the engine's full id. `action` is in Docker's words (create, start, die, pause, unpause, update,
    rename, destroy, ...); `time_nano` is the engine's clock in nanoseconds. `is_gap` marks the one event that stands
    for
    lost events: look at everything.
    `view` comes with a `create` if the adapter looked at once: a container that is about to start is locked within
    milliseconds, and a later look waits for the whole start.
    """

    container: str
    action: str
    time_nano: int
    is_gap: bool = False
    view: ContainerView | None = None


class Engine(Protocol):
    """A container engine. Every method may raise EngineUnavailable; the adapter limits the time of each call.

    It uses its own ids; its views contain the keys.
    """

    @property
    def name(self) -> str:
        """What the engine calls itself, as in `info` and in every view; "" before the first call."""

    async def info(self) -> EngineInfo:
        """Return what the engine is, and what it can do. Raise EngineLacks if it cannot do what the sidecar needs."""

    async def containers(self) -> tuple[str, ...]:
        """Return the full ids of all containers, including stopped ones."""

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container (`effective` is None). Raise ContainerGone if there is none."""

    async def glance(self, container: str) -> ContainerView:
        """Return the parts of a container's view that need no lock, which a start holds: name, phase, labels, mounts.

        The view has no CPUs and no limits (`is_glance`). Raise ContainerGone if there is no such container.
        """

    async def update(self, container: str, update: Update) -> None:
        """Change CPUs and quota in one call. Raise ContainerGone, EngineRefused, EngineFailed or EngineLacks."""

    async def stop(self, container: str) -> None:
        """Stop a container, with its own grace. Raise ContainerGone or EngineFailed."""

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal by its name (`HUP`) to a container's first process. Raise ContainerGone or EngineFailed.

        Raise EngineRefused if the container does not run, or if sending would change more than that; the reason has the
        cure.
        """

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
        """Open the event stream: subscribed when entered. Iterating raises EngineUnavailable when the stream ends."""


class Kernel(Protocol):
    """The kernel's files on this host."""

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Return where a container may really run; None if it runs nothing, or if that cannot be read.

        A container may still run although the engine reports it as exited.
        """

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        """Return which cgroup above a live container keeps it from some of these CPUs, as the end of a sentence; "" if
        none.
        """

    def topology(self) -> Topology:
        """Return the machine as it is now. Raise StateError if it cannot be understood."""

    def online(self) -> CPUSet:
        """Return the CPUs that are online now, read from one short file. Raise StateError if it cannot be read."""

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        """Undo the effects of offlined CPUs on cgroup v1, where the kernel removes them from every group permanently.

        Parents regain the online CPUs, and processes that fell out of their container's group return to it. Return what
        could
        not be mended; on v2 there is nothing to mend, and nothing is done.
        """


class Usages(Protocol):
    """CPU time, as the kernel counts it."""

    def usage(self, view: ContainerView) -> Usage | None:
        """Return what a live container has used so far; None if it is not live or cannot be read."""

    def retain(self, containers: Collection[str]) -> None:
        """Forget what is kept for all other containers: from now on only these are asked for."""


class Checkpoints(Protocol):
    """Where the State survives."""

    def save(self, state: State) -> str:
        """Commit the State: it is on disk on return. Return why it is not in its proper place, "" if it is.

        Raise StateError if it could not be saved; what was committed before stands.
        """


class Journals(Protocol):
    """Where every burst of facts is written down, so that the decisions can be replayed."""

    def append(self, facts: Sequence[Fact]) -> None:
        """Write a burst as one line. Raise StateUnwritable if the journal lacks it."""


class Telling(Protocol):
    """The part of the projections that precedes an order, by containers' ids. Both are local writes, and raise
    StateError.
    """

    def withdraw(self, container: str, cpus: CPUSet) -> None:
        """Remove all CPUs outside `cpus` from a container's files."""

    def announce(
        self, container: str, names: Iterable[str], projection: Projection, *, begins_grace: bool = False
    ) -> None:
        """Write this into a container's files before a signal is sent; with `begins_grace`, again before its grace
        begins.
        """


class Acknowledgeable(Protocol):
    """The part of the projections in which workloads answer, by containers' ids."""

    def awaited(self, container: str, leaving: CPUSet) -> range:
        """Return the generations any of which acknowledges that the container left these CPUs.

        Return an empty range if the container got no notice of them.
        """

    def directories(self, container: str) -> AbstractContextManager[tuple[int, ...]]:
        """Yield descriptors of the directories in which the container may acknowledge, open within the block."""


Tickets = Callable[[], int]
"""Draws the next ticket; tickets order looks and outcomes."""

StartOrder = Callable[[Order], None]
"""Starts an order, and never waits."""
