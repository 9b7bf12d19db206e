"""SlicedEngine: an engine whose shared pool is confined by one cgroup, shown as one container more.

The theory. Where the engine's default cgroup parent is a group of its own (a slice, under systemd), every container
that asks for nothing is born in it, and on cgroup v2 runs where the group may run: one write moves them all, and
nobody is late. To the decisions this group is a container like any other, which they write, look at and wait for. Its
members are marked, and have no CPUs of their own: what confines them is the group.

A container is a member by where it is: its cgroup lies below the group's. One that does not run is a member if it
would be born there: by its own cgroup parent, or by the default one, which Docker applies anew at every start of a
container that names none. The mark says where it is, whatever cpuset it has: what follows from both is decided
elsewhere.

A glance has no cgroup parent: there only those are marked that run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Protocol

import msgspec

from sidecar.decide.facts import ContainerView, EngineInfo, Phase, ViewKind
from sidecar.decide.orders import Update
from sidecar.decide.settings import shared_id
from sidecar.failures import EngineRefused
from sidecar.ports import Engine, EngineEvent
from state.cpuset import CPUSet

ALWAYS: Final = "1970-01-01T00:00:00Z"
"""When the group was made: before every container, and the same after each restart."""


class PoolCgroup(Protocol):
    """The cgroup that confines the shared pool. What its methods raise, says what to do about it."""

    @property
    def name(self) -> str:
        """The slice's name, or the cgroup's path, as the engine is told it."""

    @property
    def path(self) -> str:
        """Its path below the root of the hierarchy."""

    def exists(self) -> bool:
        """Return whether it is there now; if not, it will be when its first member starts."""

    def whereabouts(self, view: ContainerView) -> str:
        """Return the path of a container's cgroup, "" if none is seen that has processes."""

    def path_of(self, parent: str) -> str:
        """Return the path of a cgroup parent in the engine's words."""

    def check(self, info: EngineInfo) -> None:
        """See that this engine can have members in it. Raise EngineLacks."""

    async def cpus(self) -> str:
        """Return the CPUs that are configured, as text; "" if none are. Raise EngineLacks or EngineUnavailable."""

    async def write(self, cpus: CPUSet) -> None:
        """Set them, in force when this returns. Raise EngineRefused, EngineFailed, EngineUnavailable, EngineLacks."""


class SlicedEngine:
    """An engine and the group. Satisfies the port `Engine`."""

    def __init__(self, engine: Engine, group: PoolCgroup) -> None:
        self._engine = engine
        self._group = group
        self._id = shared_id(group.name)
        self._is_default: bool | None = None
        """Whether containers that name no parent are born in the group; None before the engine was asked who it is."""

    @property
    def name(self) -> str:
        """What the engine calls itself; the group is one of its containers."""
        return self._engine.name

    async def info(self) -> EngineInfo:
        """Who answers. EngineLacks, too, where the group cannot confine its containers."""
        info = await self._engine.info()
        self._group.check(info)
        await self._group.cpus()
        self._is_default = info.has_default_parent
        return info

    async def containers(self) -> tuple[str, ...]:
        """Return the group first, then the full ids of all containers."""
        return (self._id, *await self._engine.containers())

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container, marked if it is a member; or the group's."""
        if container == self._id:
            return await self._group_view()
        view = await self._engine.inspect(container)
        if self._is_default is None:
            await self.info()
        return self._marked(view)

    async def glance(self, container: str) -> ContainerView:
        """Return the engine's glance, marked if it is seen to be a member; or the group's view."""
        if container == self._id:
            return await self._group_view()
        view = await self._engine.glance(container)
        return self._marked(view) if view.phase.is_live else view

    async def update(self, container: str, update: Update) -> None:
        """Change a container's CPUs and quota, or the group's CPUs."""
        if container != self._id:
            await self._engine.update(container, update)
        elif update.leaves_limits:
            await self._group.write(update.cpus)
        else:
            raise EngineRefused(f"{self._group.name} is a group of containers: it accepts CPUs but no limits")

    async def stop(self, container: str) -> None:
        """Stop a container."""
        self._see_that_container(container, "stopped")
        await self._engine.stop(container)

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal to a container's first process."""
        self._see_that_container(container, "signalled")
        await self._engine.signal(container, signal)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[EngineEvent]]:
        """Yield the engine's events; the views that come with them are marked."""
        if self._is_default is None:
            await self.info()
        async with self._engine.events() as events:
            yield _Marking(events, self)

    def marked(self, event: EngineEvent) -> EngineEvent:
        """Return the event with its view marked, if it has one."""
        return event if event.view is None else msgspec.structs.replace(event, view=self._marked(event.view))

    def _marked(self, view: ContainerView) -> ContainerView:
        at = self._group.whereabouts(view)
        is_inside = self._is_inside(at) if at or view.phase.is_live else self._is_born_inside(view)
        return msgspec.structs.replace(view, cgroup=view.cgroup or at, in_shared_group=True) if is_inside else view

    def _is_born_inside(self, view: ContainerView) -> bool:
        if view.cgroup_parent:
            path = self._group.path_of(view.cgroup_parent)
            return path == self._group.path or self._is_inside(path)
        return bool(self._is_default) or self._is_inside(view.cgroup)

    def _is_inside(self, path: str) -> bool:
        return path.startswith(f"{self._group.path}/")

    async def _group_view(self) -> ContainerView:
        if not self._engine.name:
            # Whose it is has to be asked first.
            await self._engine.info()
        return ContainerView(
            engine=self._engine.name,
            id=self._id,
            name=self._group.name,
            kind=ViewKind.GROUP,
            phase=Phase.RUNNING if self._group.exists() else Phase.CREATED,
            cpuset=await self._group.cpus(),
            cgroup=self._group.path,
            created_at=ALWAYS,
            started_at=ALWAYS,
        )

    def _see_that_container(self, container: str, what: str) -> None:
        if container == self._id:
            raise EngineRefused(f"{self._group.name} is a group of containers: it cannot be {what}")


class _Marking:
    """An event stream whose views are marked as they pass."""

    def __init__(self, events: AsyncIterator[EngineEvent], engine: SlicedEngine) -> None:
        self._events = events
        self._engine = engine

    def __aiter__(self) -> _Marking:
        return self

    async def __anext__(self) -> EngineEvent:
        return self._engine.marked(await anext(self._events))
