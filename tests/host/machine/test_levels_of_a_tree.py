"""Levels that only some machines have are read where the kernel reports them, and absent elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.host.machine.record import read_record
from sidecar.host.machine.sysfs import read_topology
from state.topology import Topology
from tests.support.host.trees import CPU, lines, tree


def read(text: str) -> Topology:
    """Return the machine that `text` abbreviates."""
    return read_record(lines(text))


def each(cpus: int, path: str, value: str) -> str:
    """Return the same file for each of this many CPUs; `{}` in the value is the CPU."""
    return "\n".join(f"cpu{cpu}/{path}: {value.replace('{}', str(cpu))}" for cpu in range(cpus))


def test_dies_and_clusters_are_between_cores_and_packages() -> None:
    """Two dies, each of two clusters of two cores."""
    machine = read(
        "online: 0-7\n"
        + "\n".join(
            f"cpu{cpu}/topology/{level}_cpus_list: {cpu // size * size}-{cpu // size * size + size - 1}"
            for cpu in range(8)
            for level, size in (("cluster", 2), ("die", 4), ("package", 8))
        )
        + "\n"
        + each(8, "topology/core_cpus_list", "{}")
        + "\n"
        + each(8, "topology/physical_package_id", "0")
    )
    assert [(die.id, str(die.cpus)) for die in machine.dies] == [(0, "0-3"), (4, "4-7")]
    assert [str(cluster.cpus) for cluster in machine.clusters] == ["0-1", "2-3", "4-5", "6-7"]


@pytest.mark.parametrize("again", ["{}", "0-1"])
def test_a_level_that_is_the_cores_or_the_package_again_is_none(again: str) -> None:
    """Kernels always report dies and clusters: each CPU alone, or its package, if there are none."""
    text = "online: 0-1\n" + each(2, "topology/core_cpus_list", "{}") + "\n" + each(2, "topology/die_cpus_list", again)
    assert read(text).dies == ()


def test_a_cluster_that_splits_a_core_is_none() -> None:
    """If clusters are unknown, the kernel reports each CPU as one, also for two threads of a core."""
    text = (
        "online: 0-3\n" + each(4, "topology/core_cpus_list", "0-3") + "\n" + each(4, "topology/cluster_cpus_list", "{}")
    )
    assert read(text).clusters == ()


def test_packages_without_ids_go_by_the_lists_of_fellows() -> None:
    """POWER and s390 say -1; the list is right, and the lowest CPU is the id."""
    text = "online: 0-3\n" + each(4, "topology/physical_package_id", "-1")
    text += "\n" + "\n".join(
        f"cpu{cpu}/topology/core_siblings_list: {cpu // 2 * 2}-{cpu // 2 * 2 + 1}" for cpu in range(4)
    )
    assert [(package.id, str(package.cpus)) for package in read(text).packages] == [(0, "0-1"), (2, "2-3")]


def test_sockets_of_one_id_in_several_books_are_apart() -> None:
    """A book of an s390 numbers its sockets from 0, as the next book does; the lists tell them apart."""
    text = "online: 0-3\n" + each(4, "topology/physical_package_id", "0")
    text += "\n" + "\n".join(
        f"cpu{cpu}/topology/core_siblings_list: {cpu // 2 * 2}-{cpu // 2 * 2 + 1}" for cpu in range(4)
    )
    assert [str(package.cpus) for package in read(text).packages] == ["0-1", "2-3"]
    torn = text.replace("cpu3/topology/core_siblings_list: 2-3", "cpu3/topology/core_siblings_list: 1-3")
    assert len(read(torn).packages) == 2, "the lowest CPU of a package says who is in it"
    assert len(read(text.replace(": 2-3", ": 1-3")).packages) == 1, "lists that overlap prove nothing"


def test_nodes_have_distances_and_memory_also_without_cpus() -> None:
    """Node 2 is memory only; node numbers have holes, and a row has a number for each node that is online."""
    machine = read(
        """
        online: 0-1
        node0/:
        devices/system/node/online: 0,2,1030
        devices/system/node/has_memory: 0,2
        node0/cpulist: 0
        node0/distance: 10 17 20
        node2/cpulist:
        node2/distance: 17 10 28
        node1030/cpulist: 1
        node1030/distance: 20 28
        """
    )
    assert [(node.id, str(node.cpus)) for node in machine.nodes] == [(0, "0"), (1030, "1")]
    assert machine.memory == (0, 2)
    assert machine.distances == {0: {0: 10, 2: 17, 1030: 20}, 2: {0: 17, 2: 10, 1030: 28}}
    assert any("node1030/distance is ignored" in note for note in machine.notes)


def test_caches_are_told_by_level_and_go_by_the_kernels_ids() -> None:
    """Instruction caches do not count; the last level has the kernel's ids if each is unique."""
    text = "online: 0-3\n" + each(4, "topology/core_cpus_list", "{}")
    for index, level, sort, size in (
        (0, 1, "Data", 1),
        (1, 1, "Instruction", 1),
        (2, 2, "Unified", 1),
        (3, 3, "Unified", 2),
    ):
        for cpu in range(4):
            at, first = f"cpu{cpu}/cache/index{index}", cpu // size * size
            text += f"\n{at}/level: {level}\n{at}/type: {sort}\n{at}/shared_cpu_list: {first}-{first + size - 1}"
            text += f"\n{at}/id: {7 - first}"
    machine = read(text)
    assert [(level.level, len(level.groups)) for level in machine.cache_levels] == [(1, 4), (2, 4), (3, 2)]
    assert [(cache.id, str(cache.cpus)) for cache in machine.caches] == [(5, "2-3"), (7, "0-1")]
    assert [cache.id for cache in machine.cache_levels[2].groups] == [7, 5]
    repeated = read(text.replace("index3/id: 5", "index3/id: 7"))
    assert [cache.id for cache in repeated.caches] == [0, 2], "an id that repeats is none"


def test_caches_that_no_cores_share_are_no_last_level() -> None:
    """Below level 3: then each package counts as one, as for the kubelet."""
    text = "online: 0-1\n" + each(2, "topology/core_cpus_list", "{}")
    text += "\n" + each(2, "cache/index0/level", "2") + "\n" + each(2, "cache/index0/shared_cpu_list", "{}")
    machine = read(text)
    assert [str(cache.cpus) for cache in machine.caches] == ["0-1"]
    assert "no cache that cores share is known: the machine counts as one" in machine.notes
    assert len(machine.cache_levels[0].groups) == 2
    own = read(text.replace("level: 2", "level: 3"))
    assert [str(cache.cpus) for cache in own.caches] == ["0", "1"], "level 3 is a last level even so"


def test_a_cache_that_no_cpu_shares_is_its_cores(tmp_path: Path) -> None:
    """Old Itaniums print an empty mask."""
    text = "online: 0-3\n" + "\n".join(
        f"cpu{cpu}/topology/core_cpus_list: {cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n"
        f"cpu{cpu}/cache/index4/level: 3\ncpu{cpu}/cache/index4/shared_cpu_map: 00000000,00000000"
        for cpu in range(4)
    )
    assert [str(cache.cpus) for cache in read_topology(tree(tmp_path, text)).caches] == ["0-1", "2-3"]


def test_small_cores_may_lack_the_largest_cache() -> None:
    """The last level is each CPU's own: two small cores share a level 2, and are not at the big ones' level 3."""
    text = "online: 0-3\n" + each(4, "topology/core_cpus_list", "{}") + "\n" + each(4, "cache/index0/level", "2")
    text += "\ncpu0/cache/index0/shared_cpu_list: 0\ncpu1/cache/index0/shared_cpu_list: 1"
    text += "\ncpu2/cache/index0/shared_cpu_list: 2-3\ncpu3/cache/index0/shared_cpu_list: 2-3"
    for cpu in (0, 1):
        text += f"\ncpu{cpu}/cache/index1/level: 3\ncpu{cpu}/cache/index1/shared_cpu_list: 0-1"
    machine = read(text)
    assert [str(cache.cpus) for cache in machine.caches] == ["0-1", "2-3"]


def test_capacities_make_kinds_by_gaps() -> None:
    """A favoured core is of its kind; a core that differs by more is of another. A half core has the kind of its
    core.
    """
    text = "online: 0-6\n" + "\n".join(
        f"cpu{cpu}/cpu_capacity: {capacity}" for cpu, capacity in enumerate((280, 290, 800, 790, 960, 1024, 1000))
    )
    machine = read(text)
    assert [(kind.name, kind.capacity, str(kind.cpus)) for kind in machine.kinds] == [
        ("performance", 1024, "4-6"),
        ("middle", 800, "2-3"),
        ("efficient", 290, "0-1"),
    ]
    partly = read("online: 0-2\ncpu0/cpu_capacity: 500\ncpu2/cpu_capacity: 1024\ncpu1/:")
    assert [str(kind.cpus) for kind in partly.kinds] == ["2", "0-1"]
    assert "the kind of CPU 1 is unknown: counted with the slowest" in partly.notes
    assert read("online: 0-1\n" + each(2, "cpu_capacity", "1024")).kinds == ()
    assert read("online: 0-1\n" + each(2, "cpu_capacity", "0")).kinds == ()


def test_hybrid_machines_tell_their_kinds_by_name() -> None:
    """Offline CPUs do not count; a machine whose small cores are all off is of one kind."""
    text = "online: 0-4\npresent: 0-5\ndevices/cpu_core/cpus: 0-1\ndevices/cpu_atom/cpus: 2-5"
    machine = read(text)
    assert [(kind.name, kind.capacity, str(kind.cpus)) for kind in machine.kinds] == [
        ("performance", 0, "0-1"),
        ("efficient", 0, "2-4"),
    ]
    assert read(text.replace("online: 0-4", "online: 0-1")).kinds == ()
    rated = text + "\ncpu0/acpi_cppc/highest_perf: 64\ncpu2/acpi_cppc/highest_perf: 40"
    assert [kind.capacity for kind in read(rated).kinds] == [1024, 640]


def test_cpus_beyond_1024_and_ids_with_holes() -> None:
    """Nothing counts from 0."""
    text = "online: 3,2000,8191\n" + "\n".join(
        f"cpu{cpu}/topology/physical_package_id: {cpu}\ncpu{cpu}/topology/core_cpus_list: {cpu}"
        for cpu in (3, 2000, 8191)
    )
    machine = read(text + "\nnode900/cpulist: 3,8191\nnode40/cpulist: 2000")
    assert [package.id for package in machine.packages] == [3, 2000, 8191]
    assert [(node.id, str(node.cpus)) for node in machine.nodes] == [(40, "2000"), (900, "3,8191")]


def test_too_much_nonsense_is_a_number(tmp_path: Path) -> None:
    """Twenty notes about single files, then how many more."""
    text = "online: 0-63\n" + each(64, "topology/core_cpus_list", "nonsense{}")
    machine = read(text)
    assert machine.notes[20] == "44 more files are ignored"
    assert f"{CPU}/cpu0/topology/core_cpus_list is ignored: bad CPU list" in machine.notes[0]
    assert machine.notes[21].startswith("thread siblings are unknown for CPUs 0-63")
