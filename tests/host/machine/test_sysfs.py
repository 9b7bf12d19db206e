"""The machine is read correctly where the kernel reports it, and with known fallbacks where it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.host.machine.record import read_record
from sidecar.host.machine.sysfs import read_topology, understand
from state.cpuset import CPUSet
from state.errors import StateError
from state.topology import uniform
from tests.support.host.trees import CPU, NODE, bare, members, rendered, tree


def test_this_machine_is_read() -> None:
    """The CPUs that this test may run on are online, and each is in one core of a cache, node and package."""
    machine = read_topology("/sys")
    assert CPUSet(os.sched_getaffinity(0)) <= machine.online
    assert all(core.cpus <= machine.package_of[core.id].cpus for core in machine.cores)


def test_a_laptop_with_two_threads_a_core(tmp_path: Path) -> None:
    """Siblings, the largest cache, nodes and packages come from the kernel's lists."""
    machine = read_topology(
        tree(
            tmp_path,
            """
            online: 0-3
            present: 0-5
            isolated: 2
            cpu0/topology/core_cpus_list: 0,2
            cpu1/topology/core_cpus_list: 1,3
            cpu2/topology/core_cpus_list: 0,2
            cpu3/topology/core_cpus_list: 1,3
            cpu0/topology/physical_package_id: 0
            cpu1/topology/physical_package_id: 0
            cpu2/topology/physical_package_id: 0
            cpu3/topology/physical_package_id: 0
            cpu0/cache/index2/level: 2
            cpu0/cache/index2/shared_cpu_list: 0,2
            cpu0/cache/index3/level: 3
            cpu0/cache/index3/shared_cpu_list: 0-3
            cpu1/cache/index3/level: 3
            cpu1/cache/index3/shared_cpu_list: 0-3
            cpu2/cache/index3/level: 3
            cpu2/cache/index3/shared_cpu_list: 0-3
            cpu3/cache/index3/level: 3
            cpu3/cache/index3/shared_cpu_list: 0-3
            node0/cpulist: 0-5
            """,
        )
    )
    assert members(machine, "cores") == ["0,2", "1,3"]
    assert members(machine, "caches") == ["0-3"]
    assert members(machine, "nodes") == ["0-3"]
    assert members(machine, "packages") == ["0-3"]
    assert str(machine.offline) == "4-5"
    assert str(machine.isolated) == "2"
    assert machine.notes == ()


def test_a_core_with_one_sibling_offline_is_half_a_core(tmp_path: Path) -> None:
    """The online mask decides, regardless of the lists of siblings, caches and nodes."""
    machine = read_topology(
        tree(
            tmp_path,
            """
            online: 0,2-3
            present: 0-3
            cpu0/topology/thread_siblings_list: 0-1
            cpu2/topology/thread_siblings_list: 2-3
            cpu3/topology/thread_siblings_list: 2-3
            node0/cpulist: 0-3
            """,
        )
    )
    assert members(machine, "cores") == ["0", "2-3"]
    assert str(machine.offline) == "1"


@pytest.mark.parametrize(
    ("control", "is_off"), [("off", True), ("forceoff", True), ("on", False), ("notsupported", False), ("", False)]
)
def test_the_kernel_tells_whether_smt_is_off(control: str, is_off: bool) -> None:
    """A single offline thread is none that was turned off."""
    told = {f"{CPU}/online": "0,2", f"{CPU}/present": "0-3", **({f"{CPU}/smt/control": control} if control else {})}
    assert understand(told).is_smt_off is is_off


def test_a_sandbox_that_tells_only_what_is_online(tmp_path: Path) -> None:
    """Every level falls back, and the notes say so."""
    machine = read_topology(tree(tmp_path, "online: 0-1"))
    assert members(machine, "cores") == ["0", "1"]
    assert members(machine, "packages") == members(machine, "nodes") == members(machine, "caches") == ["0-1"]
    assert machine.notes == (
        "thread siblings are unknown for CPUs 0-1: each CPU counts as a core",
        "packages are missing: one package is assumed",
        "nodes are missing: one node",
        "caches are missing: the machine counts as one",
    )


def test_without_a_list_of_online_cpus_the_directories_tell(tmp_path: Path) -> None:
    """A CPU without an `online` file cannot be taken offline (CPU 0 on most machines), so it is online."""
    machine = read_topology(tree(tmp_path, "cpu0/:\ncpu1/online: 1\ncpu2/online: 0\ncpu100/online: 1"))
    assert str(machine.online) == "0-1,100"
    assert str(machine.offline) == "2"
    assert machine.notes[0].startswith("the list of online CPUs is missing")


def test_nodes_may_be_empty_offline_overlapping_or_incomplete() -> None:
    """The lowest node that names a CPU has it; one that no node names is counted in the lowest."""
    machine = understand(
        {
            f"{CPU}/online": "0-5",
            f"{NODE}/online": "1-3,5",
            f"{NODE}/node1/cpulist": "0-1",
            f"{NODE}/node2/cpulist": "1-2",
            f"{NODE}/node3/cpulist": "",
            f"{NODE}/node4/cpulist": "4",
            f"{NODE}/node5/cpumap": "00000000,00000018",
        }
    )
    assert [(node.id, str(node.cpus)) for node in machine.nodes] == [(1, "0-1,5"), (2, "2"), (5, "3-4")]
    assert "node 2 names CPU 1, which a lower node has" in machine.notes
    assert "CPU 5 is in no node: counted in node 1" in machine.notes


def test_a_list_that_does_not_name_its_own_cpu_is_passed_over() -> None:
    """Broken firmware may report that CPU 0 has every cache: then the mask, or nothing, is believed."""
    files = {f"{CPU}/online": "0-3"}
    for cpu in range(4):
        files[f"{CPU}/cpu{cpu}/cache/index3/level"] = "3"
        files[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list"] = "0-1"
        files[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_map"] = "3" if cpu < 2 else "c"
        files[f"{CPU}/cpu{cpu}/topology/core_cpus_list"] = "0"
    machine = understand(files)
    assert members(machine, "caches") == ["0-1", "2-3"]
    assert members(machine, "cores") == ["0", "1", "2", "3"]


def test_level_one_and_instruction_caches_are_no_last_level() -> None:
    """If only some CPUs report a shared cache, the others of a package count as one."""
    files = {
        f"{CPU}/online": "0-3",
        f"{CPU}/cpu0/cache/index1/level": "1",
        f"{CPU}/cpu0/cache/index1/shared_cpu_list": "0",
        f"{CPU}/cpu1/cache/index1/level": "2",
        f"{CPU}/cpu1/cache/index1/type": "Instruction",
        f"{CPU}/cpu1/cache/index1/shared_cpu_list": "1",
        f"{CPU}/cpu2/cache/index2/level": "2",
        f"{CPU}/cpu2/cache/index2/type": "Unified",
        f"{CPU}/cpu2/cache/index2/shared_cpu_list": "2-3",
        f"{CPU}/cpu3/cache/index2/level": "2",
        f"{CPU}/cpu3/cache/index2/shared_cpu_list": "2-3",
    }
    machine = understand(files)
    assert members(machine, "caches") == ["0-1", "2-3"]
    assert "caches are unknown for CPUs 0-1: those of one package count as one" in machine.notes


def test_packages_unknown_to_the_kernel_are_one() -> None:
    """-1 is the kernel's word for not known."""
    files = {f"{CPU}/online": "0-1"} | {f"{CPU}/cpu{cpu}/topology/physical_package_id": "-1" for cpu in range(2)}
    assert members(understand(files), "packages") == ["0-1"]


@pytest.mark.parametrize("text", ["0-", "x", "9999999", "5-1", "0--3"])
def test_nonsense_in_a_file_is_a_note(text: str) -> None:
    """One bad file costs its own level, not the machine."""
    machine = understand({f"{CPU}/online": "0-1", f"{CPU}/isolated": text})
    assert any(note.startswith(f"{CPU}/isolated is ignored: bad CPU list") for note in machine.notes)
    assert not machine.isolated


def test_binary_and_long_files_are_as_good_as_missing(tmp_path: Path) -> None:
    """A file that is not one line of text is not read."""
    root = tree(tmp_path, "online: 0-1\ncpu0/:\ncpu1/:")
    (root / CPU / "present").write_bytes(b"\xff\xfe")
    (root / CPU / "isolated").write_bytes(b"0\n1\n")
    machine = read_topology(root)
    assert (machine.offline, machine.isolated) == (CPUSet(), CPUSet())


def test_a_directory_that_is_no_sysfs_is_refused_in_words(tmp_path: Path) -> None:
    """A machine has at least one online CPU."""
    with pytest.raises(StateError, match="not the sysfs of a machine"):
        read_topology(tmp_path)
    with pytest.raises(StateError, match="not the sysfs of a machine"):
        read_topology(tmp_path / "nowhere")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    packages=st.integers(1, 4),
    nodes=st.integers(1, 3),
    cores=st.integers(1, 5),
    threads=st.sampled_from((1, 2, 4)),
    adjacent=st.booleans(),
)
def test_a_regular_machine_is_read_back_equal(
    packages: int, nodes: int, cores: int, threads: int, *, adjacent: bool
) -> None:
    """For every regular machine, reading its files gives the machine."""
    machine = uniform(packages=packages, nodes=nodes, cores=cores, threads=threads, adjacent=adjacent)
    assert bare(read_record(rendered(machine))) == bare(machine)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            [f"{CPU}/{name}" for name in ("online", "present", "isolated")]
            + [f"{CPU}/cpu{n}/{name}" for n in (0, 1, 7) for name in ("", "online", "topology/core_cpus_list")]
            + [
                f"{CPU}/cpu{n}/topology/{name}"
                for n in (0, 1, 7)
                for name in ("thread_siblings", "physical_package_id")
            ]
            + [f"{CPU}/cpu{n}/cache/index3/{name}" for n in (0, 1, 7) for name in ("level", "shared_cpu_list")]
            + [f"{NODE}/node{n}/cpulist" for n in (0, 1, 9)]
            + [f"{NODE}/online"]
        ),
        st.sampled_from(["", "0", "1", "0-1", "0-7", "1,7", "7", "-1", "3", "ff", "(null)", "99999", "a,b", "0-0-0"]),
    )
)
def test_no_machine_crashes_the_reader(files: dict[str, str]) -> None:
    """Whatever the files contain, the answer is a lawful Topology or a StateError."""
    try:
        machine = understand(files)
    except StateError:
        return
    for level in ("cores", "caches", "nodes", "packages"):
        assert sum(len(group.cpus) for group in getattr(machine, level)) == len(machine.online)
    assert machine.isolated <= machine.online
    assert machine.offline.isdisjoint(machine.online)
