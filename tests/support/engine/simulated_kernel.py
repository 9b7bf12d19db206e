"""SimulatedKernel: where containers may really run, by the rules of cpuset(7), version 1 and version 2 of cgroups.

The tree has three levels: the root, the engine's group (`docker`), and one group a container. The two versions differ
in all that hurts: whether a child may exceed its parent, and what an offline CPU leaves behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

import trio

from sidecar.astray import Astray, AstrayKind
from sidecar.decide.books.load_sample import Usage
from sidecar.decide.facts import ContainerView
from sidecar.simulation.simulated_use import SimulatedUse
from state.cpuset import EMPTY, CPUSet
from state.topology import Topology, with_online


class Denied(Exception):
    """The kernel would not have it: EACCES, on version 1, for CPUs that the parent group has not."""


class SimulatedKernel:
    """The kernel of the simulated host; satisfies the ports `Kernel` and `Usages`."""

    def __init__(self, machine: Topology, *, cgroup_version: Literal[1, 2] = 1) -> None:
        self.cgroup_version = cgroup_version
        self._machine = machine
        self._online = machine.online
        self._parent = machine.online if cgroup_version == 1 else EMPTY
        self._groups: dict[str, CPUSet] = {}
        self._strayed: set[str] = set()
        self._uses: dict[str, SimulatedUse] = {}
        """Of containers that were told to be busy; all others are idle."""

    def effective_cpus(self, view: ContainerView) -> CPUSet | None:
        """Where a live container may run now; None where it has no group."""
        return self.effective(view.id)

    def confinement(self, view: ContainerView, cpus: CPUSet) -> str:
        """The engine's group, where it has not all of these CPUs."""
        above = self._parent_effective()
        return "" if view.id not in self._groups or cpus <= above else f": the cgroup above it has CPUs {above} only"

    def usage(self, view: ContainerView) -> Usage | None:
        """What a container has used since its start; None where it has no group."""
        if view.id not in self._groups:
            return None
        self._count()
        return self._uses[view.id].usage() if view.id in self._uses else Usage(cpu_nanoseconds=0)

    def retain(self, containers: Collection[str]) -> None:
        """Nothing is held for anybody."""

    def topology(self) -> Topology:
        """The machine, without the CPUs that are offline now."""
        return with_online(self._machine, self._online)

    def online(self) -> CPUSet:
        """The CPUs that are online now."""
        return self._online

    def mend(self, views: Iterable[ContainerView]) -> tuple[Astray, ...]:
        """As the port says: the engine's group has all online CPUs again, and who fell out of a group that has CPUs
        returns to it.
        """
        if self.cgroup_version == 2:
            return ()
        self._count()
        self._parent = self._online
        self._strayed = {container for container in self._strayed if not self._groups[container]}
        return tuple(
            Astray(kind=AstrayKind.WITHOUT_CPUS, container=view.name) for view in views if view.id in self._strayed
        )

    def effective(self, container: str) -> CPUSet | None:
        """Where a live container may run, by its id."""
        if container not in self._groups:
            return None
        if container in self._strayed:
            return self._parent_effective()
        if self.cgroup_version == 1:
            return self._groups[container]
        return (self._groups[container] & self._parent_effective()) or self._parent_effective()

    def keep_busy(self, container: str, cpus: float) -> None:
        """From now on a container would use so many CPUs if it had them, after its next start too."""
        self._count()
        if use := self._uses.get(container):
            use.wanted = cpus
        else:
            self._uses[container] = SimulatedUse(cpus, trio.current_time())

    def enter(self, container: str, cpus: CPUSet) -> None:
        """A container's processes start, on these CPUs; the empty set takes the parent's. Denied on version 1."""
        self._see_that_parent_has(cpus)
        self._count()
        if use := self._uses.get(container):
            self._uses[container] = SimulatedUse(use.wanted, trio.current_time())
        wanted = cpus or (self._parent if self.cgroup_version == 1 else EMPTY)
        self._groups[container] = wanted
        self._strayed.discard(container)

    def write(self, container: str, cpus: CPUSet) -> None:
        """A live container's cpuset is written. Denied on version 1 where the parent has not these CPUs."""
        self._see_that_parent_has(cpus)
        self._count()
        self._groups[container] = cpus

    def leave(self, container: str) -> None:
        """A container's processes are gone, and its group with them."""
        self._count()
        self._groups.pop(container, None)
        self._strayed.discard(container)

    def take_offline(self, cpus: CPUSet) -> None:
        """CPUs go offline. Version 1 takes them out of every group for good, and a group that loses its last CPU loses
        its tasks to the parent; version 2 forgets nothing."""
        self._count()
        self._online -= cpus
        if self.cgroup_version == 2:
            return
        self._parent &= self._online
        for container, group in self._groups.items():
            self._groups[container] = group & self._online
            if not self._groups[container]:
                self._strayed.add(container)

    def bring_online(self, cpus: CPUSet) -> None:
        """CPUs come back. On version 1 the root has them again, and nobody below."""
        self._count()
        self._online |= cpus & self._machine.online

    def confine(self, cpus: CPUSet) -> None:
        """Somebody writes the engine's own group: it is smaller than the machine, or as large again."""
        self._count()
        self._parent = cpus

    def memory_nodes(self) -> CPUSet:
        """The ids of the NUMA nodes."""
        return CPUSet(group.id for group in self._machine.nodes)

    def _count(self) -> None:
        """Count what was used until now, before anything changes."""
        for container, use in self._uses.items():
            use.advance(trio.current_time(), len(self.effective(container) or EMPTY))

    def _parent_effective(self) -> CPUSet:
        return (self._parent & self._online) or self._online

    def _see_that_parent_has(self, cpus: CPUSet) -> None:
        if self.cgroup_version == 1 and not cpus <= self._parent:
            raise Denied("permission denied")
