"""One machine as the runner sees it: our reading, the kernel's files, and the reports of others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sidecar.host.machine.numa_nodes import NODE_DIR
from sidecar.host.machine.sources import Files, numbered
from sidecar.host.machine.sysfs import CPU_DIR
from sidecar.host.machine.values import MachineFiles
from state.cpuset import EMPTY, CPUSet
from state.topology import Group, Topology
from tests.machines.archive import Expected


class Deviation(NamedTuple):
    """A fault, or a difference from others' reports. `reason` is the rule that names it, "" for none."""

    text: str
    reason: str = ""


class Case(NamedTuple):
    """A machine: our reading of it, and `files`, the kernel's own, as evidence."""

    topology: Topology
    files: Files
    expected: Expected

    def lists(self, *names: str) -> dict[int, CPUSet]:
        """Return for each online CPU the first of these files that names a CPU, as its online CPUs. "*_list" are
        lists.
        """
        told = MachineFiles(self.files)
        found: dict[int, CPUSet] = {}
        for cpu in self.topology.online:
            for name in names:
                path = f"{CPU_DIR}/cpu{cpu}/{name}"
                if cpus := told.cpus(path) if name.endswith("_list") else told.mask(path):
                    found[cpu] = cpus & self.topology.online
                    break
        return found

    def nodes(self) -> dict[int, CPUSet]:
        """Return the online CPUs that the kernel names for each node that it reports."""
        told = MachineFiles(self.files)
        found: dict[int, CPUSet] = {}
        for id in numbered(self.files, NODE_DIR, "node"):
            listed = told.cpus(f"{NODE_DIR}/node{id}/cpulist")
            masked = told.mask(f"{NODE_DIR}/node{id}/cpumap")
            if listed is not None or masked is not None:
                found[id] = (listed or masked or EMPTY) & self.topology.online
        return found

    def indexes(self, level: int) -> set[int]:
        """Return the numbers under which CPUs have caches of this level, including those of instructions."""
        return {
            index
            for cpu in self.topology.online
            for index in numbered(self.files, f"{CPU_DIR}/cpu{cpu}/cache", "index")
            if level in (0, self.number(cpu, f"cache/index{index}/level"))
        }

    def number(self, cpu: int, name: str) -> int | None:
        """Return the number in a file of a CPU; None for -1, which means "not known"."""
        return MachineFiles(self.files).number(f"{CPU_DIR}/cpu{cpu}/{name}")


def sets(groups: Iterable[Group]) -> set[CPUSet]:
    """Return the CPUs of groups."""
    return {group.cpus for group in groups}


def given(lists: Iterable[Iterable[int]]) -> set[CPUSet]:
    """Return sets of CPUs from JSON, without empty ones."""
    return {CPUSet(cpus) for cpus in lists} - {EMPTY}


def shown(groups: Iterable[CPUSet]) -> str:
    """Return sets of CPUs as one line of text."""
    ordered = sorted(groups, key=lambda cpus: cpus.lowest())
    text = " ".join(f"[{cpus}]" for cpus in ordered[:8])
    return f"{text} and {len(ordered) - 8} more" if len(ordered) > 8 else text or "none"
