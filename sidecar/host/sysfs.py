"""Read the machine from sysfs: which CPUs are online, and which share a core, a cache, a node, a package.

It goes in two steps. `collect` copies the few files that matter, below a given root, into a dict of path to value.
`understand` makes a Topology of such a dict, and touches nothing: a recorded machine (record.py) is the same dict.

What real machines teach, and what is done about it:

1. A core is its set of siblings. (package, core_id) repeats on real machines and is not read.
2. CPU and node ids have holes, and need not start at 0.
3. The lists of siblings, caches and nodes may name CPUs that are offline: the online mask decides.
4. Nodes may be empty, or overlap, or miss a CPU: the lowest node that names a CPU has it.
5. Any file may be missing, in containers, sandboxes and old kernels: that level falls back, and a note says so.

Only a machine of which not even the online CPUs can be told is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from state.cpuset import EMPTY, CPUSet
from state.errors import CPUSetError, StateError
from state.topology import Topology, topology

CPU_DIR: Final = "devices/system/cpu"
NODE_DIR: Final = "devices/system/node"

_MACHINE_FILES: Final = (
    f"{CPU_DIR}/online",
    f"{CPU_DIR}/present",
    f"{CPU_DIR}/isolated",
    f"{NODE_DIR}/online",
)
_CPU_FILES: Final = (
    "online",
    "topology/core_cpus_list",
    "topology/thread_siblings_list",
    "topology/core_cpus",
    "topology/thread_siblings",
    "topology/physical_package_id",
)
_CACHE_FILES: Final = ("level", "type", "shared_cpu_list", "shared_cpu_map")
_NODE_FILES: Final = ("cpulist", "cpumap")

_MACHINE_EXTRAS: Final = (
    f"{CPU_DIR}/possible",
    f"{CPU_DIR}/offline",
    f"{CPU_DIR}/nohz_full",
    f"{CPU_DIR}/smt/active",
    f"{CPU_DIR}/smt/control",
    f"{NODE_DIR}/has_cpu",
    f"{NODE_DIR}/has_memory",
    "devices/cpu_core/cpus",
    "devices/cpu_atom/cpus",
)
_CPU_EXTRAS: Final = (
    "cpu_capacity",
    "topology/core_id",
    "topology/die_id",
    "topology/die_cpus_list",
    "topology/cluster_id",
    "topology/cluster_cpus_list",
    "topology/package_cpus_list",
    "topology/core_siblings_list",
)
_CACHE_EXTRAS: Final = ("id", "size")
_NODE_EXTRAS: Final = ("distance",)
"""The extras are for a record: what a bug report should show, and what later versions may read."""

_CPU_KEY: Final = re.compile(rf"{CPU_DIR}/cpu(\d{{1,4}})/(.*)")
_CACHE_KEY: Final = re.compile(r"cache/index(\d{1,3})/level")
_NODE_KEY: Final = re.compile(rf"{NODE_DIR}/node(\d{{1,5}})/cpu(?:list|map)")


def read_topology(root: str | Path = "/sys") -> Topology:
    """The machine below `root` as it is now. StateError, in words, if it is not one."""
    return understand(collect(root))


def collect(root: str | Path, *, extras: bool = False) -> dict[str, str]:
    """The files that describe the machine below `root`: relative path to stripped value.

    A CPU's directory stands with a final slash and no value, since its mere presence tells something. What is missing,
    unreadable, or not one line of text is left out. `extras` adds what only a record wants.
    """
    base = str(root)
    found: dict[str, str] = {}

    def take(path: str) -> None:
        value = _read(f"{base}/{path}")
        if value is not None:
            found[path] = value

    for path in _MACHINE_FILES + (_MACHINE_EXTRAS if extras else ()):
        take(path)
    for name in _numbered(f"{base}/{CPU_DIR}", "cpu"):
        found[f"{CPU_DIR}/{name}/"] = ""
        for path in _CPU_FILES + (_CPU_EXTRAS if extras else ()):
            take(f"{CPU_DIR}/{name}/{path}")
        for index in _numbered(f"{base}/{CPU_DIR}/{name}/cache", "index"):
            for path in _CACHE_FILES + (_CACHE_EXTRAS if extras else ()):
                take(f"{CPU_DIR}/{name}/cache/{index}/{path}")
    for name in _numbered(f"{base}/{NODE_DIR}", "node"):
        for path in _NODE_FILES + (_NODE_EXTRAS if extras else ()):
            take(f"{NODE_DIR}/{name}/{path}")
    return found


def understand(files: Mapping[str, str]) -> Topology:
    """The Topology that these files tell. StateError, in words, if they tell of no machine."""
    notes: list[str] = []
    online, offline = _online(files, notes)
    cores = _cores(files, online, notes)
    packages = _packages(files, online, notes)
    nodes = _nodes(files, online, packages, notes)
    caches = _caches(files, online, packages, notes)
    isolated = _list(files, f"{CPU_DIR}/isolated", notes) or EMPTY
    return topology(
        cores=cores,
        caches=caches,
        nodes=nodes,
        packages=packages,
        offline=offline,
        isolated=isolated,
        notes=tuple(notes),
    )


def _online(files: Mapping[str, str], notes: list[str]) -> tuple[CPUSet, CPUSet]:
    """The online CPUs, and those that are present and offline."""
    listed, running = 0, 0
    for path in files:
        match = _CPU_KEY.fullmatch(path)
        if match and int(match[1]) <= 8191:
            bit = 1 << int(match[1])
            listed |= bit
            running |= bit if files.get(f"{CPU_DIR}/cpu{match[1]}/online", "1") != "0" else 0
    online = _list(files, f"{CPU_DIR}/online", notes)
    if not online:
        online = CPUSet.from_mask(running)
        if not online:
            raise StateError(
                f"no online CPU is told below {CPU_DIR}: this is not the sysfs of a machine, or a part of it"
            )
        notes.append("the list of online CPUs is missing: every CPU is used whose directory does not say offline")
    present = _list(files, f"{CPU_DIR}/present", notes) or CPUSet.from_mask(listed)
    return online, present - online


def _cores(files: Mapping[str, str], online: CPUSet, notes: list[str]) -> list[CPUSet]:
    told: dict[int, CPUSet] = {}
    for cpu in online:
        at = f"{CPU_DIR}/cpu{cpu}/topology"
        siblings = _naming(
            cpu,
            _list(files, f"{at}/core_cpus_list", notes),
            _list(files, f"{at}/thread_siblings_list", notes),
            _mask(files, f"{at}/core_cpus", notes),
            _mask(files, f"{at}/thread_siblings", notes),
        )
        if siblings:
            told[cpu] = siblings
    if lone := online - CPUSet(told):
        notes.append(f"thread siblings are not told for CPUs {lone}: each of them counts as a core")
    return _split(online, told, "core", notes)


def _packages(files: Mapping[str, str], online: CPUSet, notes: list[str]) -> dict[int, CPUSet] | None:
    found: dict[int, int] = {}
    for cpu in online:
        text = files.get(f"{CPU_DIR}/cpu{cpu}/topology/physical_package_id", "")
        # -1 is the kernel's word for "not known" (drivers/base/topology.c).
        if text.isascii() and text.isdigit() and len(text) <= 10:
            found[int(text)] = found.get(int(text), 0) | 1 << cpu
    return _completed(
        {id: CPUSet.from_mask(mask) for id, mask in found.items()}, online, "package", "one package", notes
    )


def _nodes(
    files: Mapping[str, str], online: CPUSet, packages: dict[int, CPUSet] | None, notes: list[str]
) -> dict[int, CPUSet] | None:
    alive = _list(files, f"{NODE_DIR}/online", notes)
    ids = sorted({int(match[1]) for path in files if (match := _NODE_KEY.fullmatch(path))})
    found: dict[int, CPUSet] = {}
    taken = EMPTY
    for id in ids:
        # Node ids share the syntax of CPU lists, and their range (MAX_NUMNODES is at most 1024).
        if alive and id not in alive:
            continue
        at = f"{NODE_DIR}/node{id}"
        cpus = (_list(files, f"{at}/cpulist", notes) or _mask(files, f"{at}/cpumap", notes) or EMPTY) & online
        if both := cpus & taken:
            notes.append(f"node {id} names CPUs {both}, which a lower node has")
        if own := cpus - taken:
            found[id] = own
        taken |= cpus
    return _completed(found, online, "node", "each package is one" if packages else "one node", notes)


def _caches(
    files: Mapping[str, str], online: CPUSet, packages: dict[int, CPUSet] | None, notes: list[str]
) -> list[CPUSet] | None:
    """The largest cache of each CPU at level 2 or beyond: a level 1 cache is a core's own, and tells nothing."""
    level_of: dict[int, tuple[int, str]] = {}
    for path, text in files.items():
        match = _CPU_KEY.fullmatch(path)
        index = _CACHE_KEY.fullmatch(match[2]) if match else None
        if not match or not index or not (text.isascii() and text.isdigit() and len(text) <= 2):
            continue
        at, cpu = path.removesuffix("/level"), int(match[1])
        if cpu in online and int(text) >= 2 and files.get(f"{at}/type") != "Instruction":
            level_of[cpu] = max(level_of.get(cpu, (0, "")), (int(text), at))
    told: dict[int, CPUSet] = {}
    for cpu, (_, at) in sorted(level_of.items()):
        shared = _naming(cpu, _list(files, f"{at}/shared_cpu_list", notes), _mask(files, f"{at}/shared_cpu_map", notes))
        if shared:
            told[cpu] = shared
    if not told:
        notes.append(f"caches are missing: {'each package' if packages else 'the machine'} counts as one")
        return None
    if untold := online - CPUSet(told):
        notes.append(f"caches are not told for CPUs {untold}: those of one package count as one")
        for group in (packages or {0: online}).values():
            told.update(dict.fromkeys(group & untold, group & untold))
    return _split(online, told, "cache", notes)


def _split(online: CPUSet, told: Mapping[int, CPUSet], level: str, notes: list[str]) -> list[CPUSet]:
    """Groups that hold each CPU once: the lowest CPU of a group says who is in it; one that says nothing is alone."""
    groups: list[CPUSet] = []
    left = online
    disputed = EMPTY
    for cpu in online:
        if cpu not in left:
            continue
        named = (told.get(cpu, EMPTY) | CPUSet.of(cpu)) & online
        disputed |= named - left
        group = named & left
        groups.append(group)
        left -= group
    if disputed:
        notes.append(f"CPUs {disputed} are named in more than one {level}: the one with the lowest CPU has them")
    return groups


def _completed(
    found: dict[int, CPUSet], online: CPUSet, level: str, fallback: str, notes: list[str]
) -> dict[int, CPUSet] | None:
    """The groups, with CPUs that no group names put into the lowest; None, with a note, where there is no group."""
    if not found:
        notes.append(
            f"{level}s are missing: {fallback} is assumed" if level == "package" else f"nodes are missing: {fallback}"
        )
        return None
    covered = EMPTY
    for cpus in found.values():
        covered |= cpus
    if untold := online - covered:
        lowest = min(found)
        notes.append(f"CPUs {untold} are in no {level}: counted in {level} {lowest}")
        found[lowest] |= untold
    return found


def _naming(cpu: int, *told: CPUSet | None) -> CPUSet | None:
    """The first of several lists of a CPU's fellows that names the CPU itself: one that does not is not about it."""
    return next((cpus for cpus in told if cpus and cpu in cpus), None)


def _list(files: Mapping[str, str], path: str, notes: list[str]) -> CPUSet | None:
    text = files.get(path)
    # "(null)" is what some kernels print for a list that is not there (isolated, nohz_full).
    if not text or text == "(null)":
        return None
    try:
        return CPUSet.parse(text)
    except CPUSetError as error:
        notes.append(f"{path} is passed over: {error}")
        return None


def _mask(files: Mapping[str, str], path: str, notes: list[str]) -> CPUSet | None:
    """A mask as the kernel prints it: hexadecimal words of 32 bits, highest first, with commas."""
    text = files.get(path)
    if not text:
        return None
    try:
        return CPUSet.from_mask(int(text.replace(",", ""), 16))
    except (ValueError, CPUSetError):
        notes.append(f"{path} is passed over: {text[:40]!r} is not a CPU mask")
        return None


def _read(path: str) -> str | None:
    # Unbuffered, and by plain strings: a large machine has ten thousand such files.
    try:
        with open(path, "rb", buffering=0) as file:
            text = (file.read() or b"").decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\n" in text or "\r" in text else text


def _numbered(directory: str, prefix: str) -> list[str]:
    """The names in a directory like cpu0, cpu1, ..., by number."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    numbers = (name[len(prefix) :] for name in names if name.startswith(prefix))
    return [f"{prefix}{n}" for n in sorted(int(text) for text in numbers if text.isascii() and text.isdigit())]
