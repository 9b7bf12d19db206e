"""What tasks need from the edges, as Protocols. Adapters in `engines`, `host`, `commit`, `projection` satisfy them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Final, Protocol

import msgspec

from sidecar.decide.facts import ContainerView, EngineInfo, Fact
from sidecar.decide.orders import Answers, Order, Update
from sidecar.failures import CgroupError
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State
from state.projection import Projection


class EngineEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A hint that a container changed; its present state must be looked up.

    `container` is the engine's full id. `action` is in Docker's words (create, start, die, pause, unpause, update,
    rename, destroy, ...); `time_nano` is the engine's clock in nanoseconds. `is_gap` marks the one event that stands
    for lost events: look at everything; `crash` is the unexpected error for which an event was lost, "" for none.
    `view` comes with a `create` if the adapter looked at once: a container that is about to start is locked within
    milliseconds, and a later look waits for the whole start.
    """

    container: str
    action: str
    time_nano: int
    is_gap: bool = False
    crash: str = ""
    view: ContainerView | None = None


CREATED: Final = "create"
"""The beginning of a container, as the action of an event."""

REMOVED: Final = ("destroy", "remove")
"""Ends of a container, as actions of events."""

RUNS: Final = ("start", "die", "stop")
"""Begins and ends of a run."""

UPDATED: Final = "update"
"""A change of settings, as the action of an event."""


KeepsBack = Callable[[EngineEvent, ContainerView | None], bool]
"""Returns whether an event need not be told. With a `create` comes what it tells of the container (its name, image and
labels), None if that is not all of its labels. It is called for each event in order, from any one thread.
"""


def keeps_none(_event: EngineEvent, _told: ContainerView | None) -> bool:
    """Return False: each event is told."""
    return False


class Engine(Protocol):
    """A container engine. Every method may raise EngineUnavailable; the adapter limits the time of each call.

    It uses its own ids; its views contain the keys.
    """

    @property
    def name(self) -> str:
        """What the engine calls itself, as in `info` and in every view; "" before the first call."""

    async def info(self) -> EngineInfo:
        """Return what the engine is, and what it can do. Raise EngineLacks if it cannot do what the sidecar needs."""

    async def ping(self) -> None:
        """Return once the engine has answered a question that needs no lock. Raise any EngineError."""

    async def containers(self) -> tuple[str, ...]:
        """Return the full ids of all containers, including stopped ones."""

    @property
    def unstarted(self) -> Collection[str]:
        """Of the last list, the ids of those that it says have never run; empty where a list does not tell."""

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container (`effective` is None). Raise ContainerGone if there is none."""

    async def glance(self, container: str) -> ContainerView:
        """Return the parts of a container's view that need no lock, which a start holds: name, phase, labels, mounts;
        no CPUs and no limits (`is_glance`). Raise ContainerGone if there is no such container.
        """

    async def update(self, container: str, update: Update) -> None:
        """Change CPUs and quota in one call. Raise ContainerGone, EngineRefused, EngineFailed or EngineLacks."""

    async def stop(self, container: str) -> None:
        """Stop a container, with its own grace. Raise ContainerGone or EngineFailed."""

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal by its name (`HUP`) to a container's first process. Raise ContainerGone or EngineFailed, and
        EngineRefused, with the cure, if the container does not run, or if sending would change more than that.
        """

    def events(self, keeps_back: KeepsBack = keeps_none) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
        """Open the event stream: subscribed when entered. Iterating raises EngineUnavailable when the stream ends.

        Events for which `keeps_back` returns True are left out.
        """


class HeldAnswers(msgspec.Struct, frozen=True):
    """What a hand holds: the parents that it watches, as paths below the hierarchy's root, and the CPUs where a newborn
    may run that it could not write, or one that is let go now and did not get back at once what it had.
    """

    parents: tuple[str, ...]
    stuck: CPUSet


class GroupBorn(msgspec.Struct, frozen=True):
    """A cgroup appeared below a watched parent. A hint, like an engine's event: what it is must be looked up.

    `id` is the full id of its container, "" if its name has none (a step of a build). `cpus` is what was written into
    it, None if nothing was. `at` is in seconds of the monotonic clock. `inside`: the id of the owner in whose group it
    is, perhaps of the owner's own making; "" of all others.
    """

    id: str
    path: str
    cpus: CPUSet | None
    at: float
    inside: str = ""


class GroupGone(msgspec.Struct, frozen=True):
    """A cgroup below a watched parent is gone, or is `inside` no owner's any more; as in GroupBorn."""

    id: str
    path: str
    inside: str = ""


class GroupOverwritten(msgspec.Struct, frozen=True):
    """Another program wrote this container's cpuset, so many times since the last such news, and `found` the last time;
    the hand wrote the expected set again. At most once in a second for each container, and when it becomes wrested.
    `is_wrested`: what that program wrote has lately stood for a part of the time that counts.
    """

    id: str
    found: CPUSet
    times: int
    is_wrested: bool = False


class GroupPinned(msgspec.Struct, frozen=True):
    """Another program gave a newborn group CPUs of its own, as runtimes do: once for each that no order has written."""

    id: str


class GroupStuck(msgspec.Struct, frozen=True):
    """A cgroup that no order has written should have other CPUs than it has, and could not be written: at the first of
    the attempts. Only answers that are held again tell where it may be.
    """

    path: str


class GroupShut(msgspec.Struct, frozen=True):
    """The hand may neither guard nor move this container's cgroup any more: the owner or the mode of its files was
    changed, or on v1 of those of a group inside it. `found` is where it is now, EMPTY if that cannot be read either;
    `reason` is for people. Told at once, and after each later write, a tenth of a second apart or more; again and again
    if nothing tells of writes, or it is one inside.
    """

    id: str
    found: CPUSet
    reason: str


class GroupWritten(msgspec.Struct, frozen=True):
    """A group has other CPUs now, of which nothing else tells: it could not be written at once, because of groups
    inside it, or it is inside one. `id` is its container, "" if it is none.
    """

    id: str


class ParentsChanged(msgspec.Struct, frozen=True):
    """The hand watches these parents now: one has appeared, is gone, or was freed by another process. `taken` are those
    that another process has locked.
    """

    parents: tuple[str, ...]
    taken: tuple[str, ...] = ()


class ParentWritten(msgspec.Struct, frozen=True):
    """Another program wrote the cpuset of a parent: what is in it may have other CPUs, of which nothing else tells."""

    path: str


class NewsLost(msgspec.Struct, frozen=True):
    """Some news were lost, and the hand has read the tree again: look at all containers."""


class HandBroken(msgspec.Struct, frozen=True):
    """The last news of a hand that has ended by itself. `reason` is a sentence's end, for people; `error` is what ended
    it if that was unexpected.
    """

    reason: str
    error: Exception | None = None


HandNews = (
    GroupBorn
    | GroupGone
    | GroupOverwritten
    | GroupPinned
    | GroupShut
    | GroupStuck
    | GroupWritten
    | ParentsChanged
    | ParentWritten
    | NewsLost
    | HandBroken
)


class Hand(Protocol):
    """Writes cgroups itself, and watches for newborn ones in a thread of its own. All methods may be called from one
    thread only; `hold`, `write` and `release` take less than a millisecond for a few groups, and never wait for an
    engine.
    """

    @property
    def parents(self) -> tuple[str, ...]:
        """The parents that are watched now, as paths below the hierarchy's root."""

    @property
    def taken(self) -> tuple[str, ...]:
        """The parents that are not watched because another process watches them."""

    @property
    def shut(self) -> tuple[str, ...]:
        """Those of the watched parents that it may not enter: their owner or mode was changed."""

    @property
    def home(self) -> tuple[str, ...]:
        """Where containers that name no parent are born, if the hand was told; else nothing."""

    def hold(
        self,
        answers: Answers,
        parents: Sequence[str] = (),
        home: Sequence[str] = (),
        resting: Collection[ContainerKey] = (),
        *,
        keeps_defaults: bool = False,
    ) -> HeldAnswers:
        """Hold these answers instead of the earlier ones, and watch these parents beyond the engines' defaults. `home`
        is where containers that name no parent are found; nothing if that is not known. It replaces the defaults, or
        stands beside them (`keeps_defaults`).

        The group of a container that is `resting` counts as newborn from now on, whatever `write` wrote, and also if
        the hand found it when it began: that run is over, and the group is still there because others are inside it, or
        only called like it.

        On return every newborn that is not known yet has its answer: no later birth gets an earlier one. Groups that
        the hand found when it began are moved as `Answers` describes. Those that `write` wrote are left as they are.

        A group whose answer is None from now on is let go: it gets what it would have without the hand (what another
        program wrote last, or what it had when it was found, or else its parent's CPUs). One that `write` wrote keeps
        what it has. Neither is guarded any more. `Answers()` lets all go.
        """

    def write(self, view: ContainerView, update: Update) -> CPUSet:
        """Write an update into a container's cgroup, and return the CPUs that it has effectively.

        From now on the group is known: it is guarded with these CPUs, and no answer is written into it. Raise
        CgroupGone if the container has no cgroup, CgroupClosed if it cannot be written: then it is left as it is, and
        an earlier write does not guard it any more.
        """

    def write_many(self, writes: Sequence[tuple[ContainerView, Update]]) -> Sequence[CPUSet | CgroupError]:
        """Do the same for many containers, each once. Return what `write` returns for each, or the error it raises."""

    def release(self, id: str | None) -> None:
        """Guard the cgroup of this container no more, and write no answer into it; None: all that exist now."""

    async def news(self) -> Sequence[HandNews]:
        """Wait for news, and return all there are, in order. A birth answered before a `hold` is reported before what
        follows it. After HandBroken there are none.
        """

    def close(self) -> None:
        """End the thread, and leave all groups as they are. May be called twice."""


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
    """The part of the projections that precedes an order, by containers' ids. All are local writes, and raise
    StateError.
    """

    def withdraw(self, container: str, cpus: CPUSet) -> None:
        """Remove all CPUs outside `cpus` from a container's files."""

    def withdraw_many(self, taken: Sequence[tuple[str, CPUSet]]) -> Sequence[str]:
        """Do the same for many containers, each once, as far as that is plain. Return those that are left to
        `withdraw`.
        """

    def begin(self, container: str, projection: Projection) -> None:
        """Write this into the first files of a container, by id; nothing if it has files."""

    def correct(self, container: str, projection: Projection) -> None:
        """Write this into the files that a container has, before others are let onto CPUs that were its own."""

    def announce(
        self, container: str, names: Iterable[str], projection: Projection, *, grace_seconds: float | None = None
    ) -> None:
        """Write this into a container's files before a signal is sent; with `grace_seconds`, again before a grace of
        this length begins.
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

StartOrders = Callable[[Sequence[Order]], None]
"""Starts an order, and never waits."""
