"""Topology: which CPUs share a core, a last-level cache, a NUMA node, a package. A frozen value; questions only.

`sidecar.host.machine.sysfs` reads it. Every level is a tuple of groups, ascending by id. Only online CPUs are in a
group: an offline CPU is in `offline`, and in `narrowed` if its core is known. A level that the machine does not report
falls back to the next larger one that it does report, and `notes` mentions it; so every online CPU is in exactly one
core, cache, node and package.

Levels that only some machines have are kept as reported, and are empty elsewhere: clusters, dies, the caches of each
level, the distances between nodes, kinds of cores, and which CPUs are near which device.

A core is its set of thread siblings, and its id is its lowest CPU number, never the kernel's (package, core_id), which
repeats on real machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import gcd
from typing import Final, NamedTuple

import msgspec

from state.cpuset import EMPTY, CPUSet, union
from state.errors import StateError
from state.tree import Tree, tree

_WALK: Final = 4
"""So many cores are checked in the time in which one CPU's core is looked up."""


class Group(msgspec.Struct, frozen=True):
    """One core, cache, node or package: its id, and its online CPUs (never empty)."""

    id: int
    cpus: CPUSet


class CacheLevel(msgspec.Struct, frozen=True):
    """All data or unified caches of one level, 1 upwards, ascending by lowest CPU; each CPU is in at most one."""

    level: int
    groups: tuple[Group, ...]


class Kind(msgspec.Struct, frozen=True):
    """The cores of one kind on a machine with several kinds: its name, its capacity, its CPUs.

    The fastest kind's capacity is 1024; 0 means that it is not reported. The fastest kind is `performance`, the slowest
    `efficient`; kinds between them are `middle`.
    """

    name: str
    capacity: int
    cpus: CPUSet


class _Cores(NamedTuple):
    """Some of the cores of a machine, as masks: all, by CPU, and their union."""

    masks: tuple[int, ...]
    of: Mapping[int, int]
    cpus: int

    def touched_by(self, cpus: int) -> Sequence[int]:
        """Return those that these CPUs touch."""
        if cpus.bit_count() * _WALK > len(self.masks):
            return [core for core in self.masks if core & cpus]
        found, left = list[int](), cpus & self.cpus
        while left:
            core = self.of[left.bit_length() - 1]
            found.append(core)
            left &= ~core
        return found


def _cores(cores: Sequence[Group]) -> _Cores:
    masks = tuple(core.cpus.mask for core in cores)
    return _Cores(masks, {cpu: core.cpus.mask for core in cores for cpu in core.cpus}, sum(masks))


class Topology(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The CPUs of a machine. Build with `topology()`, which checks that the levels cover each CPU exactly once.

    `distances` are the firmware's, from node id to node id (10 is local). `memory` holds the ids of nodes with memory,
    including those without CPUs. `kinds` go from fastest to slowest, and there are none where all cores are alike.
    `devices` maps a PCI address, network interface or block device to its local CPUs. `narrowed` are the cores of which
    threads are offline, with all their threads, as they were seen before: no machine tells that of an offline CPU.
    `is_smt_off` if the kernel was told to use one thread of each core: then no core lacks any.
    """

    online: CPUSet
    cores: tuple[Group, ...]
    caches: tuple[Group, ...]
    nodes: tuple[Group, ...]
    packages: tuple[Group, ...]
    clusters: tuple[Group, ...] = ()
    dies: tuple[Group, ...] = ()
    cache_levels: tuple[CacheLevel, ...] = ()
    distances: Mapping[int, Mapping[int, int]] = {}
    memory: tuple[int, ...] = ()
    kinds: tuple[Kind, ...] = ()
    devices: Mapping[str, CPUSet] = {}
    offline: CPUSet = EMPTY
    isolated: CPUSet = EMPTY
    notes: tuple[str, ...] = ()
    narrowed: tuple[CPUSet, ...] = ()
    is_smt_off: bool = False

    @cached_property
    def core_of(self) -> dict[int, Group]:
        """CPU number to its core."""
        return _index(self.cores)

    @cached_property
    def cache_of(self) -> dict[int, Group]:
        """CPU number to its last-level cache."""
        return _index(self.caches)

    @cached_property
    def node_of(self) -> dict[int, Group]:
        """CPU number to its NUMA node."""
        return _index(self.nodes)

    @cached_property
    def package_of(self) -> dict[int, Group]:
        """CPU number to its package (socket)."""
        return _index(self.packages)

    @cached_property
    def packages_of(self) -> dict[int, int]:
        """By the id of a node, the packages that it lies in, as bits by their places."""
        return {
            node.id: sum(1 << n for n, package in enumerate(self.packages) if not package.cpus.isdisjoint(node.cpus))
            for node in self.nodes
        }

    @cached_property
    def cpus_per_core(self) -> int:
        """Threads of a core, as the kubelet counts: all CPUs divided by all cores, rounded down; at least 1."""
        return max(1, len(self.online) // len(self.cores))

    @cached_property
    def full_cores(self) -> tuple[Group, ...]:
        """The cores with all their threads online. Where an offline CPU's core is not known, the width is: if CPUs are
        offline, a core that is narrower than the widest of its kind may lack one.
        """
        if not self.offline:
            return self.cores
        found: list[Group] = []
        for alike in self._alike:
            widest = self._width_of(alike)
            found += [core for core in self.cores if core.cpus <= alike and len(core.cpus) == widest]
        return tuple(sorted(found, key=lambda core: core.id))

    @property
    def widest(self) -> int:
        """The most threads that a core has, of which some or all may be offline."""
        return max(map(len, (*(core.cpus for core in self.cores), *self.narrowed)))

    @cached_property
    def threaded(self) -> tuple[CPUSet, ...]:
        """The cores with several threads, of which some or all may be offline, as far as they are known."""
        lacking = union(self.narrowed)
        whole = (core.cpus for core in self.cores if core.cpus.isdisjoint(lacking))
        return tuple(sorted((cpus for cpus in (*whole, *self.narrowed) if len(cpus) > 1), key=CPUSet.lowest))

    def _width_of(self, cpus: CPUSet) -> int:
        """Return the threads of the widest core that has any of these CPUs, also while some are offline."""
        inside = [core.cpus for core in self.cores] + list(self.narrowed)
        return max((len(core) for core in inside if not core.isdisjoint(cpus)), default=0)

    @cached_property
    def widths(self) -> tuple[tuple[CPUSet, int], ...]:
        """Each kind of cores, or the whole machine: its CPUs, and the threads of a full core of it; the greatest common
        divisor if its cores differ.
        """
        return tuple(
            (alike, gcd(*(len(core.cpus) for core in self.full_cores if core.cpus <= alike)) or self._width_of(alike))
            for alike in self._alike
        )

    @property
    def _alike(self) -> tuple[CPUSet, ...]:
        return tuple(kind.cpus for kind in self.kinds) or (self.online,)

    @cached_property
    def tree(self) -> Tree:
        """The groups as masks, and which lie in which."""
        levels = (self.cores, self.caches, self.nodes, self.packages)
        return tree(*([(group.id, group.cpus.mask) for group in groups] for groups in levels))

    def whole_cores(self, cpus: CPUSet) -> CPUSet:
        """Return all CPUs of every core that `cpus` touches."""
        return CPUSet.from_mask(sum(self._cores.touched_by(cpus.mask)))

    def full_cores_in(self, cpus: CPUSet) -> CPUSet:
        """Return all CPUs of the full cores that lie wholly within `cpus`."""
        mask, lacking = cpus.mask, ~cpus.mask
        return CPUSet.from_mask(sum(core for core in self._full_cores.touched_by(mask) if not core & lacking))

    @cached_property
    def _cores(self) -> _Cores:
        return _cores(self.cores)

    @cached_property
    def _full_cores(self) -> _Cores:
        return _cores(self.full_cores)


def topology(
    *,
    cores: list[CPUSet],
    caches: dict[int, CPUSet] | list[CPUSet] | None = None,
    nodes: dict[int, CPUSet] | None = None,
    packages: dict[int, CPUSet] | None = None,
    offline: CPUSet = EMPTY,
    isolated: CPUSet = EMPTY,
    notes: tuple[str, ...] = (),
) -> Topology:
    """Build a Topology from sets of online CPUs.

    Caches have the kernel's ids if it reports them, else the numbers of their lowest CPUs. A missing level falls back:
    packages to one package, nodes to the packages, caches to the packages (as the kubelet does). Raise StateError if
    there is no CPU, or if a level misses a CPU or holds it twice.
    """
    online = union(cores)
    if not online:
        raise StateError("a machine has at least one online CPU")
    package_groups = _groups(packages) if packages else (Group(0, online),)
    node_groups = _groups(nodes) if nodes else package_groups
    told = _groups(caches) if isinstance(caches, dict) else _by_lowest(caches or [])
    cache_groups = told or package_groups
    made = Topology(
        online=online,
        cores=_by_lowest(cores),
        caches=cache_groups,
        nodes=node_groups,
        packages=package_groups,
        offline=offline,
        isolated=isolated & online,
        notes=notes,
    )
    for level, groups in (
        ("core", made.cores),
        ("cache", cache_groups),
        ("node", node_groups),
        ("package", package_groups),
    ):
        _check_partition(level, groups, online)
    return made


def with_known_cores(machine: Topology, known: Iterable[CPUSet]) -> Topology:
    """Return the machine that knows which of its cores lack threads that are offline now, from the cores that were
    `known` before.

    1. None does where the kernel was told to use one thread of each core.
    2. What is online now shows how cores are: one that was known otherwise was another machine's.
    """
    if not machine.offline or machine.is_smt_off:
        return machine
    present, narrowed = machine.online | machine.offline, list[CPUSet]()
    for core in sorted({each.mask: each for each in known}.values(), key=len, reverse=True):
        left, seen = core & machine.online, union(narrowed)
        is_same = core <= present and (not left or machine.core_of[left.lowest()].cpus == left)
        if is_same and left != core and core.isdisjoint(seen):
            narrowed.append(core)
    return msgspec.structs.replace(machine, narrowed=tuple(sorted(narrowed, key=CPUSet.lowest)))


def with_online(machine: Topology, online: CPUSet) -> Topology:
    """Return the same machine with only these of its CPUs online. Raise StateError if there are none."""

    def cut(groups: tuple[Group, ...]) -> dict[int, CPUSet]:
        return {group.id: group.cpus & online for group in groups}

    def left(groups: tuple[Group, ...]) -> tuple[Group, ...]:
        return tuple(Group(group.id, group.cpus & online) for group in groups if group.cpus & online)

    kinds = [msgspec.structs.replace(kind, cpus=kind.cpus & online) for kind in machine.kinds if kind.cpus & online]
    made = topology(
        cores=list(cut(machine.cores).values()),
        caches=cut(machine.caches),
        nodes=cut(machine.nodes),
        packages=cut(machine.packages),
        offline=machine.offline | (machine.online - online),
        isolated=machine.isolated,
        notes=machine.notes,
    )
    return msgspec.structs.replace(
        made,
        clusters=left(machine.clusters),
        dies=left(machine.dies),
        cache_levels=tuple(CacheLevel(each.level, left(each.groups)) for each in machine.cache_levels),
        distances=machine.distances,
        memory=machine.memory,
        kinds=tuple(kinds) if len(kinds) > 1 else (),
        devices={name: cpus & online for name, cpus in machine.devices.items()},
    )


def uniform(*, packages: int = 1, nodes: int = 1, cores: int = 1, threads: int = 1, adjacent: bool = False) -> Topology:
    """Return a regular machine: `nodes` in each package, `cores` in each node, `threads` in each core; one cache per
    node.

    Siblings are numbered in the upper half, as on most servers, or `adjacent`, as on most virtual machines.
    """
    total = packages * nodes * cores

    def core_cpus(core: int) -> CPUSet:
        return CPUSet(core * threads + t if adjacent else core + t * total for t in range(threads))

    all_cores = [core_cpus(core) for core in range(total)]
    node_sets = {n: union(all_cores[n * cores : (n + 1) * cores]) for n in range(packages * nodes)}
    package_sets = {p: union(node_sets[p * nodes + n] for n in range(nodes)) for p in range(packages)}
    return topology(cores=all_cores, caches=list(node_sets.values()), nodes=node_sets, packages=package_sets)


def _groups(sets: dict[int, CPUSet]) -> tuple[Group, ...]:
    return tuple(Group(id, sets[id]) for id in sorted(sets) if sets[id])


def _by_lowest(sets: list[CPUSet]) -> tuple[Group, ...]:
    return tuple(sorted((Group(cpus.lowest(), cpus) for cpus in sets if cpus), key=lambda group: group.id))


def _index(groups: tuple[Group, ...]) -> dict[int, Group]:
    return {cpu: group for group in groups for cpu in group.cpus}


def _check_partition(level: str, groups: tuple[Group, ...], online: CPUSet) -> None:
    covered = union(group.cpus for group in groups)
    if covered != online:
        raise StateError(f"the machine's {level}s cover CPUs {covered}, but {online} are online")
    if sum(len(group.cpus) for group in groups) != len(online):
        raise StateError(f"the machine has a CPU in two {level}s")
