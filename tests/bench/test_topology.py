"""The duration of reading a machine, and of recording it: `make bench`. The page cache is warm: sysfs has no disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sidecar.host.machine.record import read_record, record, unpack
from sidecar.host.machine.sysfs import read_topology
from state.topology import Topology, uniform

CPU = "devices/system/cpu"
NODE = "devices/system/node"

MACHINES = {
    "256": uniform(packages=2, nodes=4, cores=16, threads=2),
    "1024": uniform(packages=16, nodes=4, cores=8, threads=2),
}


def files(machine: Topology) -> Iterator[str]:
    """Yield the files that a present-day kernel has for such a machine: SMT, four caches per CPU, a third level for
    each node, devices.
    """
    yield from (f"{CPU}/{name}: {machine.online}" for name in ("online", "present", "possible"))
    yield f"{CPU}/isolated:"
    for cpu in machine.online:
        at, core = f"{CPU}/cpu{cpu}", machine.core_of[cpu]
        package, cache = machine.package_of[cpu], machine.cache_of[cpu]
        yield f"{at}/online: 1"
        yield from (f"{at}/topology/{name}: {core.cpus}" for name in ("core_cpus_list", "thread_siblings_list"))
        yield from (
            f"{at}/topology/{name}: {package.cpus}"
            for name in ("die_cpus_list", "package_cpus_list", "core_siblings_list")
        )
        yield from (f"{at}/topology/{name}: {core.id}" for name in ("core_id", "cluster_id"))
        yield f"{at}/topology/cluster_cpus_list: {core.cpus}"
        yield f"{at}/topology/physical_package_id: {package.id}"
        yield f"{at}/topology/die_id: 0"
        for index, (level, sort, group) in enumerate(
            ((1, "Data", core), (1, "Instruction", core), (2, "Unified", core), (3, "Unified", cache))
        ):
            yield f"{at}/cache/index{index}/level: {level}"
            yield f"{at}/cache/index{index}/type: {sort}"
            yield f"{at}/cache/index{index}/id: {group.id}"
            yield f"{at}/cache/index{index}/size: 1024K"
            yield f"{at}/cache/index{index}/shared_cpu_list: {group.cpus}"
    yield from (f"{NODE}/{name}: 0-{len(machine.nodes) - 1}" for name in ("online", "has_cpu", "has_memory"))
    for node in machine.nodes:
        row = ("10" if other == node else "20" for other in machine.nodes)
        yield f"{NODE}/node{node.id}/cpulist: {node.cpus}"
        yield f"{NODE}/node{node.id}/distance: {' '.join(row)}"
        for device in range(4):
            yield f"bus/pci/devices/{node.id:04x}:00:{device:02x}.0/local_cpulist: {node.cpus}"
        yield f"class/net/eth{node.id}/device/local_cpulist: {node.cpus}"


@pytest.fixture(scope="module", params=list(MACHINES.values()), ids=list(MACHINES))
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Topology, Path]:
    """Return a machine, and its files on disk."""
    root = tmp_path_factory.mktemp("sys")
    unpack("\n".join(files(request.param)), root)
    return request.param, root


def test_a_machine_is_read(benchmark: BenchmarkFixture, machine: tuple[Topology, Path]) -> None:
    """Less than 50 ms for 1024 CPUs."""
    regular, root = machine
    read = benchmark(read_topology, root)
    assert (read.cores, read.nodes, read.packages) == (regular.cores, regular.nodes, regular.packages)
    assert read.notes == ()


def test_a_machine_is_recorded(benchmark: BenchmarkFixture, machine: tuple[Topology, Path]) -> None:
    """Every existing file, with its text."""
    _, root = machine
    text = benchmark(record, root)
    assert read_record(text) == read_topology(root)
