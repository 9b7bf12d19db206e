"""The machine that is read from its sysfs is the one that lscpu and lstopo see, and the one that was ordered.

The tools' plain output is read here: the project's own readers of their formats take no part.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from sidecar.host.machine.sysfs import read_topology
from state.cpuset import CPUSet
from state.topology import Group, Topology
from tests.live.rights import MAY_OFFLINE, offline

GROUPS = {"CORE": "cores", "SOCKET": "packages", "NODE": "nodes"}
OBJECTS = {"core": "cores", "package": "packages", "numanode": "nodes"}


def said(*command: str) -> str:
    """Return what a tool of this host prints; skip if there is none."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs the program {command[0]}: see `make vm-test`")
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def by_lscpu(column: str) -> set[CPUSet]:
    """Return the groups of online CPUs that have the same number in a column of `lscpu -p`."""
    groups: dict[str, list[int]] = defaultdict(list)
    for line in said("lscpu", f"-p=CPU,{column}").splitlines():
        if not line.startswith("#"):
            cpu, _, group = line.partition(",")
            groups[group].append(int(cpu))
    return {CPUSet(cpus) for cpus in groups.values()}


def by_lstopo(kind: str) -> set[CPUSet]:
    """Return the CPUs of all objects of a kind; lstopo writes masks of 32 CPUs, the highest first."""
    found = re.findall(r"cpuset=(\S+)", said("lstopo-no-graphics", "-p", "--only", kind, "--cpuset"))
    words = (mask.replace("0x", "").split(",") for mask in found)
    masks = (int("".join(word.rjust(8, "0") for word in each), 16) for each in words)
    return {CPUSet.from_mask(mask) for mask in masks} - {CPUSet()}


def cpus(groups: tuple[Group, ...]) -> set[CPUSet]:
    return {group.cpus for group in groups}


def check_against_tools(machine: Topology) -> None:
    assert {column: by_lscpu(column) for column in GROUPS} == {
        column: cpus(getattr(machine, level)) for column, level in GROUPS.items()
    }
    online = CPUSet.parse(Path("/sys/devices/system/cpu/online").read_text())
    assert machine.online == online


def test_lscpu_sees_the_same_machine() -> None:
    """Cores, packages and nodes, however the CPUs are numbered."""
    check_against_tools(read_topology())


@pytest.mark.parametrize("kind", OBJECTS)
def test_lstopo_sees_the_same_machine(kind: str) -> None:
    """By the physical numbers of its objects."""
    assert by_lstopo(kind) == cpus(getattr(read_topology(), OBJECTS[kind]))


def test_the_machine_is_the_one_that_was_asked_for() -> None:
    """For a virtual machine, CPUSET_TESTS_SHAPE gives its sockets, cores per socket, threads and nodes."""
    shape = os.environ.get("CPUSET_TESTS_SHAPE")
    if not shape:
        pytest.skip("needs a machine of a known shape (CPUSET_TESTS_SHAPE): see `make vm-test`")
    sockets, cores, threads, nodes = map(int, shape.split(","))
    machine = read_topology()
    present = machine.online | machine.offline
    assert len(present) == sockets * cores * threads
    if machine.offline:
        pytest.skip(f"CPUs {machine.offline} are offline: their places are not told")
    assert (len(machine.packages), len(machine.cores), len(machine.nodes)) == (sockets, sockets * cores, nodes)
    assert {len(group.cpus) for group in machine.cores} == {threads}
    assert machine.notes == ()


@pytest.mark.skipif(not MAY_OFFLINE, reason="needs CPUs to take offline (CPUSET_TESTS_OFFLINE=1): see `make vm-test`")
def test_a_machine_with_a_cpu_offline_is_read_as_the_tools_read_it() -> None:
    """An offline sibling leaves half a core; a core that is all offline does not count."""
    before = read_topology()
    core = max(before.cores, key=lambda group: max(group.cpus)).cpus
    with offline(CPUSet.of(max(core))):
        machine = read_topology()
        assert machine.online == before.online - CPUSet.of(max(core))
        check_against_tools(machine)
    with offline(core):
        machine = read_topology()
        assert len(machine.cores) == len(before.cores) - 1
        check_against_tools(machine)
    assert read_topology() == before
