"""HostParts: what of a host is confined without systemd, one part for each of its units; and the kernel that knows
where these may run.

A part tells by itself where it may run: kernel threads have no cgroup, and tasks of the root group may be in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, Protocol

from sidecar.astray import Astray
from sidecar.decide.facts import ContainerView
from sidecar.failures import EngineRefused
from sidecar.host_ports import CpuEars, Kernel, UnitLook, WriteEars
from state.cpuset import CPUSet
from state.key import HOST
from state.topology import Topology

_LEFT: Final = "left alone, as configured"


class HostPart(Protocol):
    """A unit of the host, by its name."""

    @property
    def name(self) -> str:
        """What it is called."""

    def look(self) -> UnitLook | None:
        """Return what it is now; None if it is not there, or cannot be confined."""

    def effective(self) -> CPUSet:
        """Return where it may run."""

    def holes(self) -> Mapping[str, str]:
        """Return by name what of it cannot be confined, and why."""

    async def confine(self, cpus: CPUSet) -> None:
        """Keep it on these CPUs; as it was before, if these are all. Raise EngineFailed."""


class HostParts:
    """All parts of a host. Satisfies the port `HostUnits`."""

    source = HOST

    def __init__(self, parts: Sequence[HostPart], leave: Sequence[str] = ()) -> None:
        """Make it; `leave` are patterns of names that are left alone."""
        self._parts = {each.name: each for each in parts if not _is_left(each.name, leave)}
        self._left = tuple(each.name for each in parts if _is_left(each.name, leave))
        self._holes: dict[str, str] = {}

    async def meet(self) -> None:
        """None of them asks for CPUs of its own."""

    def all(self) -> tuple[str, ...]:
        """Return the names of those that are there."""
        self._holes = dict.fromkeys(self._left, _LEFT)
        for part in self._parts.values():
            self._holes |= part.holes()
        return tuple(name for name, part in self._parts.items() if part.look() is not None)

    def holes(self) -> Mapping[str, str]:
        """Return what is left alone, and what cannot be confined."""
        return self._holes

    def tell(self, name: str) -> bool:
        """Return whether it is one of them: nothing tells of these by itself."""
        return name in self._parts

    def changed(self, name: str, *, is_up: bool) -> bool:
        """Return False: nothing tells of these by itself."""
        del name, is_up
        return False

    def reread(self) -> None:
        """They have no files."""

    def rule(self, patterns: tuple[str, ...]) -> bool:
        """Return False: none of them has CPUs of its own."""
        del patterns
        return False

    async def look(self, name: str) -> UnitLook | None:
        """Return what a part is now; None if it is not there."""
        part = self._parts.get(name)
        return part.look() if part else None

    async def confine(self, name: str, cpus: CPUSet) -> None:
        """Set its CPUs, in force on return. Raise EngineFailed."""
        await self._parts[name].confine(cpus)

    async def stop(self, name: str) -> None:
        """Raise EngineRefused: none of them asks for anything."""
        raise EngineRefused(f"{name} is not stopped by the sidecar")

    async def signal(self, name: str, signal: str) -> None:
        """Raise EngineRefused: none of them asks for anything."""
        raise EngineRefused(f"{name} gets no SIG{signal} from the sidecar")

    def effective(self, name: str) -> CPUSet | None:
        """Return where a part may run; None if it is not known."""
        part = self._parts.get(name)
        return part.effective() if part else None


class HostedKernel:
    """A kernel, and where the parts of its host may run. Satisfies the port `Kernel`."""

    def __init__(self, kernel: Kernel, parts: HostParts) -> None:
        self._kernel = kernel
        self._parts = parts

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Return where a container, or a part, may really run."""
        return self._parts.effective(view.name) if view.key.engine == HOST else self._kernel.effective_cpus(view)

    def parent_of(self, view: ContainerView) -> str:
        """Return the parent of a container's cgroup."""
        return self._kernel.parent_of(view)

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        """Return which cgroup above keeps it from some of these CPUs; "" if none."""
        return "" if view.key.engine == HOST else self._kernel.confinement(view, cpus)

    def why_unreadable(self, view: ContainerView) -> str:
        """Return why its own cgroup may not be read; "" if it may."""
        return "" if view.key.engine == HOST else self._kernel.why_unreadable(view)

    def topology(self) -> Topology:
        """Return the machine as it is now."""
        return self._kernel.topology()

    def online(self) -> CPUSet:
        """Return the CPUs that are online now."""
        return self._kernel.online()

    def ears(self) -> WriteEars | None:
        """Return what hears writes of cpusets."""
        return self._kernel.ears()

    def cpu_ears(self) -> CpuEars | None:
        """Return what hears CPUs come and go."""
        return self._kernel.cpu_ears()

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        """Mend the host."""
        return self._kernel.mend(views)


def _is_left(name: str, leave: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in leave)
