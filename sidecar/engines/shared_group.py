"""SlicedEngine: an engine whose shared pool is confined by one cgroup, shown as one more container.

The theory. If the engine's default cgroup parent is a dedicated group (a slice, under systemd), every container without
a request is created in it, and on cgroup v2 runs where the group may run: one write moves them all, and none is late.
To the decisions this group is a container like any other, to be written, looked at and waited for. Its members are
marked, and have no CPUs of their own: the group confines them.

A container is a member by its place: its cgroup lies below the group's. A container that does not run is a member if it
would be created there: by its own cgroup parent, or by the default one, which Docker applies at every start of a
container that names none. The mark tells the place only, whatever the container's cpuset; the consequences of both are
decided elsewhere.

A glance has no cgroup parent: there, only running containers are marked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Final, Protocol

import msgspec

from sidecar.decide.facts import ContainerView, EngineInfo, Phase, ViewKind
from sidecar.decide.orders import Update
from sidecar.decide.settings import shared_id
from sidecar.failures import EngineRefused
from sidecar.ports import Engine, EngineEvent, KeepsBack, keeps_none
from state.cpuset import CPUSet

ALWAYS: Final = "1970-01-01T00:00:00Z"
"""When the group was made: before every container, and the same after each restart."""


class PoolCgroup(Protocol):
    """The cgroup that confines the shared pool. Errors of its methods contain the cure."""

    @property
    def name(self) -> str:
        """The slice's name, or the cgroup's path, as the engine's configuration names it."""

    @property
    def path(self) -> str:
        """Its path below the root of the hierarchy."""

    def exists(self) -> bool:
        """Return whether it exists now; if not, it will when its first member starts."""

    def whereabouts(self, view: ContainerView) -> str:
        """Return the path of a container's cgroup; "" if none is visible, or of one that was not only glanced at, and
        is not called live, none with processes.
        """

    def path_of(self, parent: str) -> str:
        """Return the path of a cgroup parent, which is given in the engine's words."""

    def check(self, info: EngineInfo) -> None:
        """Raise EngineLacks if this engine cannot have members in it."""

    async def cpus(self) -> str:
        """Return the configured CPUs, as text; "" if there are none. Raise EngineLacks or EngineUnavailable."""

    async def write(self, cpus: CPUSet) -> None:
        """Set the CPUs, in force on return. Raise EngineRefused, EngineFailed, EngineUnavailable or EngineLacks."""


class SlicedEngine:
    """An engine and the group. Satisfies the port `Engine`."""

    def __init__(self, engine: Engine, group: PoolCgroup) -> None:
        self._engine = engine
        self._group = group
        self._id = shared_id(group.name)
        self._is_default: bool | None = None
        """Whether containers that name no parent are created in the group; None before the engine was identified."""

    @property
    def name(self) -> str:
        """What the engine calls itself; the group is one of its containers."""
        return self._engine.name

    async def info(self) -> EngineInfo:
        """Return what the engine is. Raise EngineLacks, too, if the group cannot confine its containers."""
        info = await self._engine.info()
        self._group.check(info)
        await self._group.cpus()
        self._is_default = info.traits.has_default_parent
        return info

    async def ping(self) -> None:
        """Ask the engine for a sign of life."""
        await self._engine.ping()

    async def containers(self) -> tuple[str, ...]:
        """Return the group first, then the full ids of all containers."""
        return (self._id, *await self._engine.containers())

    @property
    def unstarted(self) -> Collection[str]:
        """Of the last list, the ids of those that have never run."""
        return self._engine.unstarted

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container, marked if it is a member; or the group's."""
        if container == self._id:
            return await self._group_view()
        view = await self._engine.inspect(container)
        if self._is_default is None:
            await self.info()
        return self._marked(view)

    async def glance(self, container: str) -> ContainerView:
        """Return the engine's glance, marked if it is a visible member; or the group's view."""
        if container == self._id:
            return await self._group_view()
        view = await self._engine.glance(container)
        # The engine may still be starting what it does not call live.
        return self._marked(view) if view.phase.is_live or self._group.whereabouts(view) else view

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
    async def events(self, keeps_back: KeepsBack = keeps_none) -> AsyncIterator[AsyncIterator[EngineEvent]]:
        """Yield the engine's events; the views in them are marked."""
        if self._is_default is None:
            await self.info()
        async with self._engine.events(keeps_back) as events:
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
            # The name of its engine is needed first.
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
    """An event stream that marks the views in it."""

    def __init__(self, events: AsyncIterator[EngineEvent], engine: SlicedEngine) -> None:
        self._events = events
        self._engine = engine

    def __aiter__(self) -> _Marking:
        return self

    async def __anext__(self) -> EngineEvent:
        return self._engine.marked(await anext(self._events))
