"""Read the machine from sysfs: which CPUs are online, and what they share: cores, caches, dies, nodes, packages.

One reading serves a live tree and a recorded machine (files.py). It is lazy: it reads the members of a group only from
its lowest CPU, so a machine of a thousand CPUs is read in a fraction of its ten thousand files.

What real machines show, and how this module handles it:

1. A core is its set of siblings. (package, core_id) repeats on real machines and is not read.
2. CPU and node ids have holes, and need not start at 0.
3. The lists of siblings, caches and nodes may name CPUs that are offline: the online mask decides.
4. Nodes may be empty, or overlap, or miss a CPU: the lowest node that names a CPU has it.
5. Packages need not have an id (POWER, s390), nor a unique one: then the list of each CPU's fellows decides.
6. Any file may be missing, in containers, sandboxes and old kernels: that level falls back, and a note reports it.

Only a machine whose online CPUs are unknown is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from sidecar.host.machine.cache_levels import cache_levels
from sidecar.host.machine.core_kinds import kinds
from sidecar.host.machine.devices import devices
from sidecar.host.machine.group_levels import last_level
from sidecar.host.machine.numa_nodes import nodes
from sidecar.host.machine.sources import Files, Live, Recorded, numbered
from sidecar.host.machine.values import MachineFiles, completed, grouped, say_disputed
from sidecar.words.counts import named
from state.cpuset import EMPTY, MAX_CPU, CPUSet
from state.errors import StateError
from state.topology import Group, Topology, topology

CPU_DIR: Final = "devices/system/cpu"

_ONE_THREAD: Final = ("off", "forceoff")
"""What the kernel says where it was told to use one thread of each core, at the boot or since."""

_CORE_LISTS: Final = ("core_cpus_list", "thread_siblings_list")
_CORE_MASKS: Final = ("core_cpus", "thread_siblings")
_PACKAGE_LISTS: Final = ("package_cpus_list", "core_siblings_list")
_PACKAGE_MASKS: Final = ("package_cpus", "core_siblings")


def read_topology(root: str | Path = "/sys") -> Topology:
    """Return the machine below `root` as it is now. Raise StateError, with the reason, if there is none."""
    with Live(str(root)) as files:
        return understand(files)


def understand(machine: Mapping[str, str] | Files) -> Topology:
    """Return the Topology in these files, given as path to value or as a tree.

    Raise StateError, with the reason, if they describe none.
    """
    told = MachineFiles(Recorded(machine) if isinstance(machine, Mapping) else machine)
    online, offline = _online(told)
    cores = _cores(told, online)
    packages = _packages(told, online, cores)
    by_node = nodes(told, online, packages)
    levels = cache_levels(told, CPU_DIR, online, cores)
    smt = told.files.value(f"{CPU_DIR}/smt/control")
    made = topology(
        cores=cores,
        caches=last_level(levels, packages, cores, online, told.note),
        nodes=by_node.groups,
        packages=packages,
        offline=offline,
        isolated=told.cpus(f"{CPU_DIR}/isolated") or EMPTY,
    )
    more = {
        "clusters": _between(told, "cluster_cpus", online, cores, packages),
        "dies": _between(told, "die_cpus", online, cores, packages),
        "cache_levels": levels,
        "distances": by_node.distances,
        "memory": by_node.memory,
        "kinds": kinds(told, CPU_DIR, online, cores),
        "devices": devices(told, online),
        "is_smt_off": smt in _ONE_THREAD,
    }
    return msgspec.structs.replace(made, **more, notes=told.notes)


def _online(told: MachineFiles) -> tuple[CPUSet, CPUSet]:
    """Return the online CPUs, and those that are present and offline."""
    online = told.cpus(f"{CPU_DIR}/online")
    present = told.cpus(f"{CPU_DIR}/present")
    if online and present:
        return online, present - online
    listed = CPUSet(number for number in numbered(told.files, CPU_DIR, "cpu") if number <= MAX_CPU)
    if not online:
        online = CPUSet(cpu for cpu in listed if told.files.value(f"{CPU_DIR}/cpu{cpu}/online") != "0")
        if not online:
            raise StateError(
                f"no online CPU is named below {CPU_DIR}: this is not the sysfs of a machine, or only a part of it"
            )
        told.note("the list of online CPUs is missing: every CPU counts unless its directory says offline")
    return online, (present or listed) - online


def _cores(told: MachineFiles, online: CPUSet) -> list[CPUSet]:
    found = grouped(online, lambda cpu: _fellows(told, cpu, _CORE_LISTS, _CORE_MASKS))
    if found.alone:
        told.note(f"thread siblings are unknown for {named(found.alone)}: each CPU counts as a core")
    say_disputed(told, "core", found.disputed)
    return found.groups


def _packages(told: MachineFiles, online: CPUSet, cores: list[CPUSet]) -> dict[int, CPUSet] | None:
    """Return packages by id. The first CPU of a core that reports a package determines the core's package."""
    found: dict[int, CPUSet] = {}
    masks: dict[int, int] = {}
    untold = 0
    for core in cores:
        ids = (told.number(f"{CPU_DIR}/cpu{cpu}/topology/physical_package_id") for cpu in core)
        id = next((id for id in ids if id is not None), None)
        if id is None:
            untold |= core.mask
        else:
            masks[id] = masks.get(id, 0) | core.mask
    for id, mask in sorted(masks.items()):
        for part in _parted(told, CPUSet.from_mask(mask)):
            found[id if id not in found else _free(found, part)] = part
    # 5.
    nameless = grouped(CPUSet.from_mask(untold), lambda cpu: _fellows(told, cpu, _PACKAGE_LISTS, _PACKAGE_MASKS))
    for group in nameless.groups:
        if not group <= nameless.alone:
            found[_free(found, group)] = group
    say_disputed(told, "package", nameless.disputed)
    return completed(told, found, online, "package", "packages are missing: one package is assumed")


def _parted(told: MachineFiles, cpus: CPUSet) -> list[CPUSet]:
    """Return the packages in the CPUs of one package id: usually one.

    There are several if their lists of fellows consistently show that (a book of an s390 numbers its sockets from 0, as
    the next book does).
    """
    first = _fellows(told, cpus.lowest(), _PACKAGE_LISTS, _PACKAGE_MASKS)
    if first is None or cpus <= first:
        return [cpus]
    found = grouped(cpus, lambda cpu: _fellows(told, cpu, _PACKAGE_LISTS, _PACKAGE_MASKS))
    return [cpus] if found.alone or found.disputed else found.groups


def _free(found: Mapping[int, CPUSet], cpus: CPUSet) -> int:
    """Return an id for a package that has none: its lowest CPU, or the next free number."""
    id = cpus.lowest()
    while id in found:
        id += 1
    return id


def _between(
    told: MachineFiles, name: str, online: CPUSet, cores: list[CPUSet], packages: dict[int, CPUSet] | None
) -> tuple[Group, ...]:
    """Return a level between cores and packages, by lowest CPU.

    Return none if it is not reported, or equals the cores or packages: kernels report every level on every machine, and
    where there is none, as one group per CPU or per package.
    """
    found = grouped(online, lambda cpu: _fellows(told, cpu, (f"{name}_list",), (name,)))
    if found.alone or found.disputed:
        return ()
    groups = {group.mask for group in found.groups}
    alike = [cores, list((packages or {}).values()), [online]]
    if any(groups == {each.mask for each in other} for other in alike):
        return ()
    group_of = {cpu: group for group in found.groups for cpu in group}
    if not all(core <= group_of[core.lowest()] for core in cores):
        return ()
    return tuple(Group(group.lowest(), group) for group in found.groups)


def _fellows(told: MachineFiles, cpu: int, lists: tuple[str, ...], masks: tuple[str, ...]) -> CPUSet | None:
    return told.naming(cpu, f"{CPU_DIR}/cpu{cpu}/topology", lists, masks)
