"""SimulatedKernel: the ModelKernel on trio's clock, and its count of the containers' use."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import trio

from sidecar.astray import Astray, AstrayKind
from sidecar.decide.books.load_sample import Usage
from sidecar.decide.facts import ContainerView
from sidecar.host_ports import CpuEars
from sidecar.simulation.model_kernel import ENGINE_GROUP, ModelKernel
from sidecar.simulation.simulated_use import SimulatedUse
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology


class SimulatedKernel(ModelKernel):
    """The kernel of the simulated host; satisfies the ports `Kernel` and `Usages`."""

    def __init__(self, machine: Topology, *, cgroup_version: Literal[1, 2] = 1) -> None:
        super().__init__(machine, cgroup_version=cgroup_version)
        self._uses: dict[str, SimulatedUse] = {}
        """Of containers that were told to be busy; all others are idle."""
        self.hears_cpus: CpuEars | None = None
        self.closed: dict[str, str] = {}
        """Why containers' groups may not be read."""

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Return the CPUs that a live container may run on now; None if it has no group."""
        return self.effective(view.id)

    def ears(self) -> None:
        """Hear nothing: what is written there is seen by looks alone."""

    def cpu_ears(self) -> CpuEars | None:
        """Hear nothing: CPUs that come and go are seen by looks alone, unless a test gives it ears."""
        return self.hears_cpus

    def parent_of(self, view: ContainerView) -> str:
        """Return the group above a live container's."""
        return f"/{self.above(view.id)}" if self.effective(view.id) is not None else ""

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        """Return the engine's group, if it lacks some of these CPUs."""
        above = self.reached(ENGINE_GROUP)
        is_live = self.effective(view.id) is not None
        return f": the cgroup above it has CPUs {above} only" if is_live and not cpus <= above else ""

    def why_unreadable(self, view: ContainerView) -> str:
        """Return what a test says of a container."""
        return self.closed.get(view.id, "")

    def usage(self, view: ContainerView) -> Usage | None:
        """Return what a container has used since its start; None if it has no group."""
        if self.effective(view.id) is None:
            return None
        self._count()
        return self._uses[view.id].usage() if view.id in self._uses else Usage(cpu_nanoseconds=0)

    def retain(self, containers: Collection[str]) -> None:
        """Do nothing: no files are held open."""

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        """As the port says."""
        self._count()
        left = self.mended()
        return tuple(Astray(kind=AstrayKind.WITHOUT_CPUS, container=view.name) for view in views if view.id in left)

    def keep_busy(self, container: str, cpus: float) -> None:
        """From now on, let a container use this many CPUs if it has them, also after its next start."""
        self._count()
        if use := self._uses.get(container):
            use.wanted = cpus
        else:
            self._uses[container] = SimulatedUse(cpus, trio.current_time())

    def wanted(self, container: str) -> float:
        """Return the number of CPUs that a container would use if it had them."""
        return self._uses[container].wanted if container in self._uses else 0.0

    def enter(self, container: str, cpus: CPUSet, above: str = ENGINE_GROUP) -> None:
        self._count()
        super().enter(container, cpus, above)
        if use := self._uses.get(container):
            self._uses[container] = SimulatedUse(use.wanted, trio.current_time())

    def write(self, container: str, cpus: CPUSet) -> None:
        self._count()
        super().write(container, cpus)

    def leave(self, container: str) -> None:
        self._count()
        super().leave(container)

    def take_offline(self, cpus: CPUSet) -> None:
        self._count()
        super().take_offline(cpus)

    def bring_online(self, cpus: CPUSet) -> None:
        self._count()
        super().bring_online(cpus)

    def confine(self, cpus: CPUSet, group: str = ENGINE_GROUP) -> None:
        self._count()
        super().confine(cpus, group)

    def _count(self) -> None:
        """Count the use until now, before anything changes."""
        for container, use in self._uses.items():
            use.advance(trio.current_time(), len(self.effective(container) or EMPTY))
