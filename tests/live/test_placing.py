"""Placement on a real engine: memory nodes with the CPUs, options and refusals as the daemon reports them, `plan`."""

from __future__ import annotations

import json

import pytest

from sidecar.decide.moves.limits import memory_of
from sidecar.host.machine.sysfs import read_topology
from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import KernelView
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import eventually

pytestmark = pytest.mark.live

ONE = {"cpuset.exclusive": "1"}


def mems(workloads: Containers, id: str) -> CPUSet:
    """Return the memory nodes that the engine has stored."""
    return CPUSet.parse(workloads.api.inspect(id)["HostConfig"]["CpusetMems"])


def told_mems(running: SidecarProcess, id: str) -> str:
    """Return the memory nodes that its projection names; "" without a projection."""
    told = running.projection(id)
    return told.mems if told else ""


def test_memory_nodes_come_with_the_cpus_and_go_back(running: SidecarProcess, workloads: Containers) -> None:
    """They are those of the CPU's node; afterwards all nodes, since an engine cannot clear them."""
    topology = read_topology()
    if not workloads.api.keeps_updates:
        pytest.skip("this engine does not tell what was written (Podman before 5.1)")
    if not topology.memory:
        pytest.skip("this kernel tells no memory nodes")
    id = workloads.run("follows", labels={**ONE, "cpuset.mems": "follow"})
    running.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    # They come with the engine's record, which no settling waits for.
    eventually(lambda: mems(workloads, id) == memory_of(topology, LAST), "recorded")
    eventually(lambda: CPUSet.parse(told_mems(running, id)) == memory_of(topology, LAST), "told")
    other = workloads.run("keeps")
    running.until_quiet()
    assert not mems(workloads, other)
    running.terminate()
    running.release()
    assert mems(workloads, id) == CPUSet(topology.memory)


def test_a_refusal_says_the_most_that_the_machine_can_give(running: SidecarProcess, workloads: Containers) -> None:
    """No release of CPUs would make room for it, and it says so."""
    wide = workloads.run("wide", labels={"cpuset.exclusive": "64", "cpuset.numa": "single"})
    refused = running.until(wide, lambda it: it.refusal, "refused")
    assert refused.refusal.startswith("asked for 64 exclusive CPUs")
    assert f"this machine can give {len(LAST)} at most" in refused.refusal


def test_a_plan_is_what_then_happens(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """The daemon gives the CPUs that were planned; the next plan sees them held."""
    said = running.command("plan", "--cpus", "1", "--json")
    assert said.returncode == 0
    [answer] = json.loads(said.stdout)["answers"]
    id = workloads.run("planned", labels=ONE)
    running.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    assert str(kernel.once_running(id)) == answer["cpus"]
    again = eventually(lambda: json.loads(running.command("plan", "--cpus", "1", "--json").stdout), "planned again")
    assert list(again["held"].values()) == [answer["cpus"]]
