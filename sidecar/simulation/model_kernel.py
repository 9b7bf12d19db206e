"""ModelKernel: where containers may run, by the rules of cpuset(7), version 1 and version 2 of cgroups. Pure.

A tree: the root has the online CPUs; below it are groups without tasks (the engine's own, and any that confines
others), and one group per container. The two versions differ in the important parts: whether a child may exceed its
parent, and what an offline CPU leaves behind.
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal, Protocol

from state.cpuset import EMPTY, CPUSet
from state.topology import Topology, with_online

ENGINE_GROUP: Final = "docker"
"""The engine's own group, which contains the containers that are not put elsewhere."""


class Denied(Exception):
    """The kernel refuses: EACCES, on version 1, for CPUs that the parent group lacks."""


@dataclasses.dataclass(slots=True)
class Cgroup:
    """The settings of one group, and the group above it ("" is the root). No CPUs: on version 2, all of that group.
    `is_shut`: the owner or the mode of its files was changed, so that the watcher can neither read nor write them.
    """

    cpus: CPUSet
    above: str = ""
    has_tasks: bool = True
    is_shut: bool = False


class GroupWatcher(Protocol):
    """A program that watches groups, as inotify lets it: births, and writes by others. It may write at once."""

    def born(self, container: str) -> None:
        """Notice that a container's group was made."""

    def overwritten(self, container: str) -> None:
        """Notice that another program wrote a container's cpuset."""


class ModelKernel:
    """The groups of one machine, by the ids of their containers."""

    def __init__(self, machine: Topology, *, cgroup_version: Literal[1, 2] = 2) -> None:
        self.cgroup_version = cgroup_version
        self.machine = machine
        self.strayed: set[str] = set()
        """Containers whose processes fell to the group above, on version 1."""
        self.watcher: GroupWatcher | None = None
        self._online = machine.online
        self._groups = {ENGINE_GROUP: Cgroup(self._everything(), has_tasks=False)}
        self._effective: dict[str, CPUSet] = {}
        """Results since the last change."""

    def online(self) -> CPUSet:
        """Return the CPUs that are online now."""
        return self._online

    def topology(self) -> Topology:
        """Return the machine, without the CPUs that are offline now."""
        return self.machine if self._online == self.machine.online else with_online(self.machine, self._online)

    def memory_nodes(self) -> CPUSet:
        """Return the ids of the NUMA nodes."""
        return CPUSet(group.id for group in self.machine.nodes)

    def running(self) -> list[str]:
        """Return the ids of the containers that have a group, sorted."""
        return sorted(id for id, group in self._groups.items() if group.has_tasks)

    def effective(self, container: str) -> CPUSet | None:
        """Return where a container may run, None if it has no group."""
        return self.reached(container) if container in self._groups else None

    def reached(self, name: str) -> CPUSet:
        """Return the CPUs of an existing group: those of its own that the group above has, or all of that group."""
        if not name:
            return self._online
        found = self._effective.get(name)
        if found is None:
            group = self._groups[name]
            above = self.reached(group.above)
            has_own = name not in self.strayed
            # On version 1 a child never exceeds its parent when it is written, and keeps what was written.
            found = (group.cpus & (self._online if self.cgroup_version == 1 else above) if has_own else EMPTY) or above
            self._effective[name] = found
        return found

    def enter(self, container: str, cpus: CPUSet, above: str = ENGINE_GROUP) -> None:
        """Start a container's processes on these CPUs; the empty set takes the parent's. Raise Denied on version 1."""
        self._see_that_it_has(above, cpus)
        inherited = self._groups[above].cpus if self.cgroup_version == 1 and above else EMPTY
        self._groups[container] = Cgroup(cpus or inherited, above)
        self.strayed.discard(container)
        self._effective.clear()
        if self.watcher:
            self.watcher.born(container)

    def write(self, container: str, cpus: CPUSet) -> None:
        """Write a live container's cpuset. Raise Denied on version 1 if the parent lacks these CPUs."""
        self.answer(container, cpus)
        if self.watcher:
            self.watcher.overwritten(container)

    def answer(self, container: str, cpus: CPUSet) -> None:
        """Write a live container's cpuset, as the watcher. Raise Denied on version 1 if the parent lacks these CPUs."""
        self._see_that_it_has(self._groups[container].above, cpus)
        self._groups[container].cpus = cpus
        self._effective.clear()

    def shut(self, container: str, *, is_shut: bool = True) -> None:
        """Close a live container's group to the watcher, or open it again, as what runs inside may."""
        self._groups[container].is_shut = is_shut

    def is_shut(self, container: str) -> bool:
        """Return whether an existing group is closed to the watcher."""
        return self._groups[container].is_shut

    def above(self, container: str) -> str:
        """Return the group above an existing one."""
        return self._groups[container].above

    def own(self, container: str) -> CPUSet:
        """Return what an existing group was written with; empty if it never was."""
        return self._groups[container].cpus

    def leave(self, container: str) -> None:
        """Remove a container's processes, and its group with them."""
        self._groups.pop(container, None)
        self.strayed.discard(container)
        self._effective.clear()

    def confine(self, cpus: CPUSet, group: str = ENGINE_GROUP) -> None:
        """Set the CPUs of a group without tasks; the group is made below the root if it is missing."""
        self._groups.setdefault(group, Cgroup(EMPTY, has_tasks=False)).cpus = cpus
        self._effective.clear()

    def put_below(self, container: str, group: str) -> None:
        """Put a live container's group below another one."""
        self._groups[container].above = group
        self._effective.clear()

    def take_offline(self, cpus: CPUSet) -> None:
        """Take CPUs offline. Version 1 removes them from every group permanently, and a group that loses its last CPU
        loses its tasks to the parent; version 2 forgets nothing.
        """
        self._online -= cpus
        self._effective.clear()
        if self.cgroup_version == 2:
            return
        for name, group in self._groups.items():
            group.cpus &= self._online
            if group.has_tasks and not group.cpus:
                self.strayed.add(name)

    def bring_online(self, cpus: CPUSet) -> None:
        """Bring CPUs back. On version 1 the root has them again, and no group below it."""
        self._online |= cpus & self.machine.online
        self._effective.clear()

    def mended(self) -> set[str]:
        """Mend version 1: the engine's group gets all online CPUs, and strayed processes return to groups with CPUs.

        Return the containers whose processes could not return.
        """
        if self.cgroup_version == 1:
            self.confine(self._online)
            self.strayed = {container for container in self.strayed if not self._groups[container].cpus}
        return self.strayed

    def _everything(self) -> CPUSet:
        return self._online if self.cgroup_version == 1 else EMPTY

    def _see_that_it_has(self, above: str, cpus: CPUSet) -> None:
        if self.cgroup_version == 1 and above and not cpus <= self._groups[above].cpus:
            raise Denied("permission denied")
