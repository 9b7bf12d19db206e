"""The named reasons: rules by which our reading differs from others' reports, each argued from evidence.

A rule uses the kernel's own files, never a machine's name, so that it holds for machines not seen yet. A difference
that no rule explains is a fault.
"""

from __future__ import annotations

from typing import Final

from state.cpuset import EMPTY, CPUSet, union
from tests.machines.case import Case, sets

CONTRADICTION: Final = (
    "the kernel's files contradict each other: a list is not what its mask says, or two CPUs' lists of one group "
    "differ; the list of the lowest CPU is believed, while others believe another file"
)
MODULES: Final = (
    "modules: the kernel calls CPUs thread siblings that each have a core id of their own (AMD's pairs of integer "
    "cores that share a front end and an FPU); the kubelet and the scheduler go by siblings, hwloc by the ids"
)
WITHOUT_CPUS: Final = (
    "nodes of memory only: the kernel names no CPU for them; hwloc gives them those of the nearest node by distance"
)
NO_NODES: Final = (
    "no NUMA: the kernel tells no nodes, so each package is one, as cAdvisor tells the kubelet; hwloc says one node of "
    "all CPUs, numbered 0, and lscpu says none"
)
IN_NO_NODE: Final = (
    "torn nodes: the lists of the nodes miss a CPU, or two have it; it is counted in the lowest, or in the lower one"
)
UNTOLD: Final = "untold: of these CPUs the kernel tells nothing; they fall back, and the notes say so"
DEVICE_TREE: Final = "no caches: sysfs tells none; hwloc has them from the device tree or the processor itself"
OTHER_PROGRAM: Final = "lscpu against hwloc: the two differ, and hwloc's sets are ours"
BY_CLUSTER: Final = "several kinds or clusters: lscpu counts cores and sockets per type, or by clusters"
WITH_CPULESS_NODES: Final = "empty nodes: lscpu counts nodes without CPUs too"
WITH_OFFLINE: Final = "offline CPUs: lscpu counts them too"
NO_MACHINE: Final = "no machine: not even the online CPUs are told, so it is refused in words"

CORE_FILES: Final = (
    "topology/core_cpus_list",
    "topology/thread_siblings_list",
    "topology/core_cpus",
    "topology/thread_siblings",
)
PACKAGE_FILES: Final = (
    "topology/package_cpus_list",
    "topology/core_siblings_list",
    "topology/package_cpus",
    "topology/core_siblings",
)


CLUSTER_FILES: Final = ("topology/cluster_cpus_list", "topology/cluster_cpus")
DIE_FILES: Final = ("topology/die_cpus_list", "topology/die_cpus")


def contradicts(case: Case, names: tuple[str, ...]) -> bool:
    """Return whether these files, all about one level, do not form one partition of the CPUs that have them."""
    lists = [found for name in names if (found := case.lists(name))]
    return any(_is_torn(each) for each in lists) or any(
        first.get(cpu, cpus) != cpus for first in lists for each in lists for cpu, cpus in each.items()
    )


def caches_contradict(case: Case, level: int) -> bool:
    """Return the same for the caches of one level."""
    return any(
        contradicts(case, (f"cache/index{index}/shared_cpu_list", f"cache/index{index}/shared_cpu_map"))
        for index in sorted(case.indexes(level))
    )


def packages_contradict(case: Case) -> bool:
    """Return whether the lists of packages are no partition, or contradict the ids."""
    by_id: dict[int, set[int]] = {}
    for cpu in case.topology.online:
        if (id := case.number(cpu, "topology/physical_package_id")) is not None:
            by_id.setdefault(id, set()).add(cpu)
    listed = set(case.lists(*PACKAGE_FILES).values())
    return contradicts(case, PACKAGE_FILES) or bool(by_id and listed != {CPUSet(cpus) for cpus in by_id.values()})


def are_modules(case: Case, ours: set[CPUSet], theirs: set[CPUSet]) -> bool:
    """Return whether our cores are unions of theirs, by siblings that all have a core id of their own."""
    siblings = case.lists(*CORE_FILES)

    def is_module(core: CPUSet) -> bool:
        ids = {case.number(cpu, "topology/core_id") for cpu in core} - {None}
        return len(ids) == len(core) and all(siblings.get(cpu) == core for cpu in core)

    return all(union(each for each in theirs if each <= core) == core and is_module(core) for core in ours - theirs)


def without(groups: set[CPUSet], cpus: CPUSet) -> set[CPUSet]:
    """Return the groups without these CPUs."""
    return {group - cpus for group in groups} - {EMPTY}


def untold(case: Case, names: tuple[str, ...]) -> CPUSet:
    """Return online CPUs that have none of these files."""
    return case.topology.online - CPUSet(case.lists(*names))


def torn_nodes(case: Case) -> CPUSet:
    """Return online CPUs that the nodes' lists omit, or name twice."""
    lists = list(case.nodes().values())
    once = CPUSet(cpu for cpu in case.topology.online if sum(cpu in cpus for cpus in lists) == 1)
    return case.topology.online - once


def is_by_clusters(case: Case) -> bool:
    """Return whether there are several kinds of cores, or clusters of several cores."""
    return bool(case.topology.kinds) or bool(
        set(case.lists(*CLUSTER_FILES).values()) - sets(case.topology.cores) - {EMPTY}
    )


def _is_torn(lists: dict[int, CPUSet]) -> bool:
    groups = set(lists.values())
    return sum(map(len, groups)) != len(union(groups)) or any(cpu not in cpus for cpu, cpus in lists.items())
