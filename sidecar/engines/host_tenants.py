"""HostedEngine: an engine whose host's own units are shown as containers more, and confined as the shared pool is.

The theory. To the decisions a unit of the host that has no container below it is a container like any other: it is
looked at, waited for, moved off CPUs that are granted, and put back by a release. What sets its CPUs is its source:
systemd, for its units (decision 0068). One with labels asks for CPUs as a container with the same labels does (decision
0081). A unit that was told of and does not run yet has its CPUs set before it does. Its key has its source where a
container's has its engine, and its name.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final

import trio

from sidecar.decide.facts import ContainerView, EngineInfo, Phase, ViewKind
from sidecar.decide.orders import Update
from sidecar.failures import ContainerGone, EngineError, EngineRefused
from sidecar.host_ports import HostUnits, UnitLook
from sidecar.ports import Engine, EngineEvent, KeepsBack, keeps_none
from state.key import ContainerKey

ALWAYS: Final = "1970-01-01T00:00:00Z"
"""When a unit was made, and when one that asks for nothing started: its CPUs do not depend on the run."""


MEET_SECONDS: Final = 5.0
"""How long a list of containers waits for systemd, which is asked in parts and goes on with the next list: systemd that
is stuck holds up no container.
"""


class HostedEngine:
    """An engine and the units of its host. Satisfies the port `Engine`."""

    def __init__(self, engine: Engine, *units: HostUnits) -> None:
        self._engine = engine
        self.units = units
        self._met: set[str] = set()
        """The sources of which it is known which units ask for CPUs."""
        self._known: Mapping[str, HostUnits] = {}
        """Of which source each unit is, by its name. No name is the id of a container."""

    @property
    def name(self) -> str:
        """What the engine calls itself; the units are among its containers."""
        return self._engine.name

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the units that are listed."""
        return tuple(each.source for each in self.units if each.source in self._met)

    async def info(self) -> EngineInfo:
        """Return what the engine is."""
        return await self._engine.info()

    async def ping(self) -> None:
        """Ask the engine for a sign of life."""
        await self._engine.ping()

    async def containers(self) -> tuple[str, ...]:
        """Return the keys of the units, then the full ids of all containers. Units of a source that has not told yet
        which of them ask are not listed: an owner would seem to have given up its CPUs.
        """
        for each in self.units:
            with suppress(EngineError), trio.move_on_after(MEET_SECONDS):
                await each.meet()
                self._met.add(each.source)
        self._known = {name: each for each in self.units if each.source in self._met for name in each.all()}
        units = (str(ContainerKey(each.source, name)) for name, each in self._known.items())
        return (*units, *await self._engine.containers())

    @property
    def unstarted(self) -> Collection[str]:
        """Of the last list, the ids of those that have never run."""
        return self._engine.unstarted

    def hinted(self, units: HostUnits, name: str) -> ContainerKey:
        """Return the key of a unit that its source told of, and that can be looked at from now on."""
        self._known = {**self._known, name: units}
        return ContainerKey(units.source, name)

    def holes(self) -> dict[str, str]:
        """Return by name what cannot be confined, and why."""
        return {name: why for each in self.units for name, why in each.holes().items()}

    async def inspect(self, container: str) -> ContainerView:
        """Return the engine's view of one container, or that of a unit, by its name."""
        units = self._known.get(container)
        return await self._engine.inspect(container) if units is None else await self._unit_view(units, container)

    async def glance(self, container: str) -> ContainerView:
        """Return the engine's glance, or the view of a unit: it has no lock."""
        units = self._known.get(container)
        return await self._engine.glance(container) if units is None else await self._unit_view(units, container)

    async def update(self, container: str, update: Update) -> None:
        """Change a container's CPUs and quota, or a unit's CPUs."""
        if (units := self._known.get(container)) is None:
            await self._engine.update(container, update)
        elif update.leaves_limits:
            await units.confine(container, update.cpus)
        else:
            raise EngineRefused(f"{container} is a unit of the host: the sidecar sets its CPUs alone, and no limits")

    async def stop(self, container: str) -> None:
        """Stop a container, or a unit."""
        units = self._known.get(container)
        await (self._engine.stop(container) if units is None else units.stop(container))

    async def signal(self, container: str, signal: str) -> None:
        """Send a signal to the first process of a container, or of a unit."""
        units = self._known.get(container)
        await (self._engine.signal(container, signal) if units is None else units.signal(container, signal))

    def events(self, keeps_back: KeepsBack = keeps_none) -> AbstractAsyncContextManager[AsyncIterator[EngineEvent]]:
        """Return the engine's events; of units, systemd tells (`observe/unit_hints`)."""
        return self._engine.events(keeps_back)

    async def _unit_view(self, units: HostUnits, name: str) -> ContainerView:
        found = await units.look(name)
        if found is None:
            self._known = {each: known for each, known in self._known.items() if each != name}
            raise ContainerGone(f"there is no unit {name} to confine")
        return ContainerView(
            engine=units.source,
            id=name,
            name=name,
            kind=ViewKind.UNIT,
            phase=_phase(found),
            labels=found.labels,
            cpuset=found.cpus,
            cgroup=found.cgroup,
            created_at=ALWAYS,
            started_at=found.started if found.asks else ALWAYS if found.runs else "",
        )


def _phase(found: UnitLook) -> Phase:
    if found.runs:
        return Phase.RUNNING
    if not found.asks or (found.is_coming and not found.started):
        return Phase.CREATED
    return Phase.RESTARTING if found.is_coming else Phase.EXITED
