"""Random machines with every level, and the files that the kernel of such a machine would have."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from hypothesis import strategies as st

from state.cpuset import CPUSet, union
from state.topology import CacheLevel, Group, Kind, Topology, topology
from tests.support.host.trees import CPU, NODE

_CAPACITIES = (1024, 700, 300)


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Draw packages of dies of clusters of cores of threads, numbered at random with holes; nodes of any of them."""
    shape = [
        [[draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)) for _ in range(draw(st.integers(1, 2)))]]
        * draw(st.integers(1, 2))
        for _ in range(draw(st.integers(1, 2)))
    ]
    total = sum(threads for package in shape for die in package for cluster in die for threads in cluster)
    numbers = iter(
        draw(st.lists(st.integers(0, 80) | st.integers(0, 8191), min_size=total + 3, max_size=total + 3, unique=True))
    )
    packages = [
        [[[CPUSet(next(numbers) for _ in range(threads)) for threads in cluster] for cluster in die] for die in package]
        for package in shape
    ]
    offline = CPUSet(draw(st.sampled_from([[], list(numbers)])))
    dies = [union(core for cluster in die for core in cluster) for package in packages for die in package]
    clusters = [union(cluster) for package in packages for die in package for cluster in die]
    cores = [core for package in packages for die in package for cluster in die for core in cluster]
    owned = [union(core for die in package for cluster in die for core in cluster) for package in packages]
    ids = draw(st.lists(st.integers(0, 5000), min_size=len(owned), max_size=len(owned), unique=True))
    by_node = draw(st.sampled_from([owned, dies, clusters, [union(owned)]]))
    numbers_of_nodes = draw(
        st.lists(st.integers(0, 999), min_size=len(by_node) + 1, max_size=len(by_node) + 1, unique=True)
    )
    nodes = dict(zip(numbers_of_nodes, by_node, strict=False))
    idle = [numbers_of_nodes[-1]] if draw(st.booleans()) else []
    levels = {1: cores, 2: draw(st.sampled_from([cores, clusters])), 3: draw(st.sampled_from([dies, owned]))}
    told = {level: levels[level] for level in draw(st.sampled_from([(1, 2, 3), (1, 2), (1, 3), (1,), ()]))}
    cache_levels = tuple(CacheLevel(level, by_lowest(groups)) for level, groups in told.items())
    kind_of = draw(st.lists(st.sampled_from(_CAPACITIES), min_size=len(clusters), max_size=len(clusters)))
    by_capacity = {
        capacity: union(cpus for cpus, each in zip(clusters, kind_of, strict=True) if each == capacity)
        for capacity in sorted(set(kind_of), reverse=True)
    }
    names = ["performance", *["middle"] * (len(by_capacity) - 2), "efficient"]
    everybody = sorted([*nodes, *idle])
    online = union(cores)
    made = topology(
        cores=cores,
        caches=_last(told, cores),
        nodes=nodes,
        packages=dict(zip(ids, owned, strict=True)),
        offline=offline,
        isolated=draw(st.sampled_from([CPUSet(), cores[0]])),
        notes=_notes(told, cores),
    )
    return msgspec.structs.replace(
        made,
        clusters=_between(clusters, cores, owned),
        dies=_between(dies, cores, owned),
        cache_levels=cache_levels,
        distances={a: {b: 10 if a == b else 11 + draw(st.integers(0, 90)) for b in everybody} for a in everybody},
        memory=tuple(everybody),
        kinds=tuple(
            Kind(name, capacity * 1024 // max(by_capacity), cpus)
            for name, (capacity, cpus) in zip(names, by_capacity.items(), strict=True)
        )
        if len(by_capacity) > 1
        else (),
        devices=dict.fromkeys(draw(st.sets(st.sampled_from(["eth0", "0000:3b:00.0", "sda"]))), cores[-1])
        | ({"lo1": online} if draw(st.booleans()) else {}),
    )


def by_lowest(groups: Iterable[CPUSet]) -> tuple[Group, ...]:
    """Return groups whose ids are their lowest CPUs."""
    return tuple(sorted((Group(cpus.lowest(), cpus) for cpus in groups), key=lambda group: group.id))


def written(machine: Topology) -> str:
    """Return the record of this machine: every list names the offline CPUs too, next to those of the lowest group."""
    lines = [f"{CPU}/online: {machine.online}", f"{CPU}/present: {machine.online | machine.offline}"]
    lines.append(f"{CPU}/isolated: {machine.isolated}")
    for cpu in machine.online:
        at = f"{CPU}/cpu{cpu}"
        for name, groups in (
            ("core", machine.cores),
            ("cluster", machine.clusters or machine.packages),
            ("die", machine.dies or machine.packages),
            ("package", machine.packages),
        ):
            lines.append(f"{at}/topology/{name}_cpus_list: {_listed(groups, cpu, machine.offline)}")
        lines.append(f"{at}/topology/physical_package_id: {machine.package_of[cpu].id}")
        lines += [f"{at}/cpu_capacity: {kind.capacity}" for kind in machine.kinds if cpu in kind.cpus]
        if not machine.kinds:
            lines.append(f"{at}/cpu_capacity: 1024")
        for index, level in enumerate(machine.cache_levels):
            lines.append(f"{at}/cache/index{index}/level: {level.level}")
            lines.append(f"{at}/cache/index{index}/type: {'Data' if level.level == 1 else 'Unified'}")
            lines.append(f"{at}/cache/index{index}/shared_cpu_list: {_listed(level.groups, cpu, machine.offline)}")
    lines.append(f"{NODE}/online: {CPUSet(machine.distances)}")
    lines.append(f"{NODE}/has_memory: {CPUSet(machine.memory)}")
    for id, row in machine.distances.items():
        cpus = next((node.cpus for node in machine.nodes if node.id == id), CPUSet())
        lines.append(f"{NODE}/node{id}/cpulist: {cpus}")
        lines.append(f"{NODE}/node{id}/distance: {' '.join(map(str, row.values()))}")
    for name, cpus in machine.devices.items():
        place = "bus/pci/devices" if ":" in name else "block" if name.startswith("sd") else "class/net"
        lines.append(f"{place}/{name}/{'' if ':' in name else 'device/'}local_cpulist: {cpus | machine.offline}")
    return "".join(f"{line}\n" for line in lines)


def _listed(groups: tuple[Group, ...], cpu: int, offline: CPUSet) -> CPUSet:
    cpus = next(group.cpus for group in groups if cpu in group.cpus)
    return cpus | offline if cpus == groups[0].cpus else cpus


def _between(groups: list[CPUSet], cores: list[CPUSet], packages: list[CPUSet]) -> tuple[Group, ...]:
    return () if set(groups) in (set(cores), set(packages)) else by_lowest(groups)


def _last(told: dict[int, list[CPUSet]], cores: list[CPUSet]) -> list[CPUSet] | None:
    if 3 in told:
        return told[3]
    return told[2] if 2 in told and (set(told[2]) != set(cores) or len(cores) == 1) else None


def _notes(told: dict[int, list[CPUSet]], cores: list[CPUSet]) -> tuple[str, ...]:
    if _last(told, cores):
        return ()
    if 2 in told:
        return ("no cache that cores share is known: each package counts as one",)
    return ("caches are missing: each package counts as one",)
