"""HostedEngine: an engine whose host's own units are shown as containers more, and confined as the shared pool is.

The theory. To the decisions a unit of systemd that has no container below it is a container like any other: it is
looked at, waited for, moved off CPUs that are granted, and put back by a release. It never asks for CPUs, and what sets
its CPUs is systemd (decision 0068). A unit that was told of and has no cgroup yet does not run: its CPUs are set before
it does.

A unit that may run everywhere has no `AllowedCPUs`, and all CPUs in its cgroup (`unit_groups`).
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from sidecar.decide.facts import ContainerView, EngineInfo, Phase, ViewKind
from sidecar.decide.orders import Update
from sidecar.failures import ContainerGone, EngineRefused
from sidecar.ports import Engine, EngineEvent, KeepsBack, keeps_none
from state.cpuset import CPUSet

ALWAYS: Final = "1970-01-01T00:00:00Z"
"""When a unit was made, and started: a restart of it changes nothing that its CPUs depend on."""


class HostUnits(Protocol):
    """The units of this host that can be confined. `name` is a unit's."""

    def all(self) -> tuple[str, ...]:
        """Return the names of all."""

    def tell(self, name: str) -> bool:
        """Take it that systemd told of a unit; return whether it is one to look at."""

    async def look(self, name: str) -> tuple[str, str] | None:
        """Return the path of a unit's cgroup below the hierarchy's root, "" if it has none yet, and the CPUs that are
        set for it, as text, "" if none are; None if it is gone. One below which there are containers now is let go, and
        gone.
        """

    async def confine(self, name: str, cpus: CPUSet) -> None:
        """Set its CPUs, in force on return. Raise EngineRefused, EngineFailed, EngineUnavailable or EngineLacks."""


def unit_id(name: str) -> str:
    """Return the id of a unit among the containers: 64 hex digits."""
    return hashlib.sha256(f"unit {name}".encode()).hexdigest()


class HostedEngine:
    """An engine and the units of its host. Satisfies the port `Engine`."""

    def __init__(self, engine: Engine, units: HostUnits) -> None:
        self._engine = engine
        self.units = units
        self._names: Mapping[str, str] = {}

    @property
    def name(self) -> str:
        """What the engine calls itself; the units are among its containers."""
        return self._engine.name

    async def info(self) -> EngineInfo:
        """Return what the engine is."""
        return await self._engine.info()

    async def containers(self) -> tuple[str, ...]:
        """Return the ids of the units, then the full ids of all containers."""
        self._names = {unit_id(name): name for name in self.units.all()}
        return (*self._names, *await self._engine.containers())

    def hinted(self, name: str) -> str:
        """Return the id of a unit that systemd told of, and that can be looked at from now on."""
        self._names = {**self._names, unit_id(name): name}
        return unit_id(name)

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container, or that of a unit."""
        name = self._names.get(container)
        return await self._engine.inspect(container) if name is None else await self._unit_view(container, name)

    async def glance(self, container: str) -> ContainerView:
        """Return the engine's glance, or the view of a unit: it has no lock."""
        name = self._names.get(container)
        return await self._engine.glance(container) if name is None else await self._unit_view(container, name)

    async def update(self, container: str, update: Update) -> None:
        """Change a container's CPUs and quota, or a unit's CPUs."""
        if (name := self._names.get(container)) is None:
            await self._engine.update(container, update)
        elif update.leaves_limits:
            await self.units.confine(name, update.cpus)
        else:
            raise EngineRefused(f"{name} is a unit of the host: the sidecar sets its CPUs alone, and no limits")

    async def stop(self, container: str) -> None:
        """Stop a container."""
        self._see_that_container(container, "stopped")
        await self._engine.stop(container)

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal to a container's first process."""
        self._see_that_container(container, "signalled")
        await self._engine.signal(container, signal)

    def events(self, keeps_back: KeepsBack = keeps_none) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
        """Return the engine's events; of units, systemd tells (`observe/unit_hints`)."""
        return self._engine.events(keeps_back)

    async def _unit_view(self, id: str, name: str) -> ContainerView:
        found = await self.units.look(name)
        if found is None:
            self._names = {each: known for each, known in self._names.items() if each != id}
            raise ContainerGone(f"there is no unit {name} to confine")
        cgroup, cpus = found
        if not self._engine.name:
            # The name of its engine is needed first.
            await self._engine.info()
        return ContainerView(
            engine=self._engine.name,
            id=id,
            name=name,
            kind=ViewKind.UNIT,
            phase=Phase.RUNNING if cgroup else Phase.CREATED,
            cpuset=cpus,
            cgroup=cgroup,
            created_at=ALWAYS,
            started_at=ALWAYS if cgroup else "",
        )

    def _see_that_container(self, container: str, what: str) -> None:
        if name := self._names.get(container):
            raise EngineRefused(f"{name} is a unit of the host: the sidecar has never {what} one")
