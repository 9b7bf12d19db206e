"""Services: units of a played systemd, for the whole daemon on the simulated engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import trio

from sidecar.decide.facts import ContainerView
from sidecar.failures import EngineUnavailable
from sidecar.host.units.host_parts import HostedKernel, HostParts
from sidecar.host_ports import Kernel, UnitLook
from state.cpuset import CPUSet
from state.key import SYSTEMD


@dataclass
class Service:
    """A service: where it may run, what systemd keeps for it, and when its present run, or its last one, began."""

    labels: Mapping[str, str] = field(default_factory=dict)
    cpus: CPUSet | None = None
    runs: bool = True
    run: int = 1
    is_coming: bool = False

    @property
    def started(self) -> str:
        return f"2026-01-01T00:00:{self.run:02}.000000Z" if self.run else ""


class Services:
    """The services of a host, by their names. Satisfies the port `HostUnits`."""

    source = SYSTEMD

    def __init__(self, online: CPUSet) -> None:
        self.online = online
        self.by_name: dict[str, Service] = {}
        self.is_silent = False
        self.signals: list[tuple[str, str]] = []
        self.orders: list[tuple[str, str]] = []

    async def meet(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_silent:
            raise EngineUnavailable("systemd does not answer")

    def all(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    def holes(self) -> Mapping[str, str]:
        return {}

    def tell(self, name: str) -> bool:
        return name in self.by_name

    def changed(self, name: str, *, is_up: bool) -> bool:
        return name in self.by_name

    def reread(self) -> None:
        pass

    def rule(self, patterns: tuple[str, ...]) -> bool:
        return False

    async def look(self, name: str) -> UnitLook | None:
        await trio.lowlevel.checkpoint()
        if (found := self.by_name.get(name)) is None:
            return None
        return UnitLook(
            f"/system.slice/{name}" if found.runs else "",
            str(found.cpus or ""),
            runs=found.runs,
            labels=found.labels,
            asks=bool(found.labels),
            started=found.started if found.labels else "",
            is_coming=found.is_coming,
        )

    async def confine(self, name: str, cpus: CPUSet) -> None:
        await trio.sleep(0.01)
        self.orders.append((name, str(cpus)))
        self.by_name[name].cpus = None if self.online <= cpus else cpus

    async def stop(self, name: str) -> None:
        self.by_name[name].runs = False

    async def signal(self, name: str, signal: str) -> None:
        self.signals.append((name, signal))

    def where(self, name: str) -> CPUSet:
        """Return where a service may run, or would."""
        return self.by_name[name].cpus or self.online


class ServedKernel(HostedKernel):
    """A kernel that also knows where the services run."""

    def __init__(self, kernel: Kernel, services: Services) -> None:
        super().__init__(kernel, HostParts(()))
        self._services = services

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Return where a container, or a service, may really run."""
        if view.key.engine != SYSTEMD:
            return super().effective_cpus(view)
        found = self._services.by_name.get(view.name)
        return self._services.where(view.name) if found and found.runs else None
