"""From label to exclusive cores and back, on a real engine, verified by the kernel: one container's life."""

from __future__ import annotations

import pytest

from sidecar.status.document import SharingStatus
from state.cpuset import CPUSet
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, allowed_of, online
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually, stays
from tests.support.keys import by_id

pytestmark = pytest.mark.live

ONE = {"cpuset.exclusive": "1"}

LINGER_SECONDS = 5 * PATIENCE
"""Longer than a stop is told late, and a start takes, on a machine that is busy with other tests."""


def configured(workloads: Containers, id: str) -> CPUSet:
    """Return the cpuset with which the engine would start it."""
    return CPUSet.parse(workloads.api.inspect(id)["HostConfig"]["CpusetCpus"])


def until_configured(running: SidecarProcess, workloads: Containers, id: str, cpus: CPUSet) -> None:
    """Wait until the engine would start it there; where it does not report that, until no order is left."""
    if workloads.api.tells_of_the_stopped:
        eventually(lambda: configured(workloads, id) == cpus, f"configured for {cpus}")
    else:
        running.until_quiet()


def started_on(workloads: Containers, kernel: KernelView, id: str, cpus: CPUSet) -> bool:
    """Return whether it starts there; where the engine forgets updates, whether it is there soon."""
    if workloads.api.keeps_updates:
        return kernel.once_running(id) == cpus
    return bool(eventually(lambda: kernel.allowed(id) == cpus, "back on its CPUs"))


def output(workloads: Containers, id: str) -> str:
    """Return what a container wrote to stdout. The engine frames each line: eight bytes, the last four its length."""
    rest: bytes = workloads.api.ask("GET", f"containers/{id}/logs", stdout="1")
    lines = b""
    while rest:
        end = 8 + int.from_bytes(rest[4:8], "big")
        lines, rest = lines + rest[8:end], rest[end:]
    return lines.decode("ascii", "replace")


def until_alone(running: SidecarProcess, id: str) -> None:
    running.until(
        id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled and it.phase == "running", "alone"
    )


def until_shared(running: SidecarProcess, id: str) -> None:
    running.until(id, lambda it: it.sharing is SharingStatus.SHARED and it.is_settled, "in the shared pool")


def test_the_first_instruction_of_a_labelled_container_sees_its_cpus(
    running: SidecarProcess, workloads: Containers
) -> None:
    """Created, pinned, then started: what its very first program reads of itself is its grant."""
    if not workloads.api.keeps_updates:
        pytest.skip("this engine forgets updates at a start (Podman before 5.1): only a strict start can promise that")
    id = workloads.create("first", "cat", "/proc/self/status", labels=ONE)
    eventually(lambda: configured(workloads, id) == LAST, "pinned when created")
    workloads.api.act(id, "start")
    assert eventually(lambda: allowed_of(output(workloads, id)), "it told what it saw") == LAST


def test_a_container_started_at_once_is_alone_soon(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Created and started without a pause: verified at its start, moved if it was too early, and then settled."""
    neighbour = workloads.run("neighbour")
    id = workloads.run("quick", labels=ONE)
    until_alone(running, id)
    assert kernel.once_running(id) == kernel.cpuset(id) == LAST
    assert kernel.once_running(neighbour) == REST
    # Files follow the status.
    told = eventually(
        lambda: told if (told := running.projection(id)) is not None and told.settled else None, "its file is settled"
    )
    assert told.cpus == told.desired == told.original == LAST


def test_unlabelled_containers_are_confined_to_the_pool_and_get_it_back(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """They run on all CPUs while no container is exclusive, next to the exclusive one while there is one, and on all
    after.
    """
    before = workloads.run("before")
    running.until_quiet()
    assert kernel.once_running(before) == online()
    exclusive = workloads.run("exclusive", labels=ONE)
    until_alone(running, exclusive)
    after = workloads.run("after")
    eventually(lambda: kernel.allowed(after) == REST == kernel.allowed(before), "both are confined")
    workloads.api.remove(exclusive)
    eventually(lambda: kernel.allowed(after) == online() == kernel.allowed(before), "the pool is whole again")


def test_a_container_pinned_by_hand_is_a_stranger(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """It is never moved, and no container gets its CPUs; when it is gone, they are available."""
    sidecar.configure(tenants_may=["pin"])
    sidecar.start()
    stranger = workloads.run("stranger", CpusetCpus=str(LAST))
    # Before it is looked at, its CPU can be granted.
    sidecar.until(stranger, lambda it: it.sharing is SharingStatus.STRANGER, "known as pinned")
    wants = workloads.run("wants", labels={**ONE, "cpuset.on-shortage": "wait"})
    refused = sidecar.until(wants, lambda it: it.refusal, "refused")
    assert "pinned by hand" in refused.refusal
    sidecar.until_quiet()
    # The hand has it in the shared pool until it is known to be pinned.
    eventually(lambda: kernel.allowed(stranger) == LAST, "it has its pin")
    assert sidecar.container(stranger).sharing is SharingStatus.STRANGER  # type: ignore[union-attr]
    workloads.api.remove(stranger)
    until_alone(sidecar, wants)


def test_a_right_to_pin_that_comes_later_waits_for_an_owner_that_cannot_move(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """It waits in the shared pool. Then it is on its own CPUs, for the engine as well, and left alone."""
    if not workloads.api.keeps_updates:
        pytest.skip("this engine does not tell what was written (Podman before 5.1)")
    sidecar.start()
    owner = workloads.run("owner", labels=ONE)
    until_alone(sidecar, owner)
    pinned = workloads.run("pinned", CpusetCpus=str(LAST))

    def configured() -> CPUSet:
        return CPUSet.parse(workloads.api.inspect(pinned)["HostConfig"]["CpusetCpus"])

    eventually(lambda: kernel.allowed(pinned) == configured() == REST, "confined, and recorded")
    sidecar.configure(tenants_may=["pin"])
    sidecar.reload()
    sidecar.until(pinned, lambda it: it.sharing is SharingStatus.STRANGER, "has the right")
    stays(lambda: kernel.allowed(pinned) == REST, "it waits", seconds=0.5)
    waits = sidecar.projection(pinned)
    assert waits is not None
    assert (waits.cpus, waits.arriving) == (REST, CPUSet())
    told = sidecar.command("explain", pinned).stdout
    assert f"pinned by hand to CPU {LAST}, and runs on" in " ".join(told.split())
    until_alone(sidecar, owner)
    workloads.api.remove(owner)
    eventually(lambda: kernel.allowed(pinned) == configured() == LAST, "it is back")
    eventually(lambda: not sidecar.books().originals, "nothing is left to restore")


def test_a_container_that_is_left_alone_is_not_touched(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """`cpuset.manage: off`, beside an exclusive container."""
    sidecar.configure(tenants_may=["opt-out"])
    sidecar.start()
    free = workloads.run("free", labels={"cpuset.manage": "off"})
    # Before it is looked at, the hand has it in the shared pool.
    sidecar.until(free, lambda it: it.sharing is SharingStatus.UNMANAGED, "known as left alone")
    until_alone(sidecar, workloads.run("exclusive", labels=ONE))
    sidecar.until_quiet()
    assert kernel.once_running(free) == online()
    assert workloads.api.inspect(free)["HostConfig"]["CpusetCpus"] == ""


def test_a_stopped_container_keeps_its_cpus_for_a_while_and_is_then_parked(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Within `linger` they are kept for its return; afterwards it cannot start on CPUs that may be granted to
    another.
    """
    sidecar.configure(linger=f"{LINGER_SECONDS:g}s")
    sidecar.start()
    neighbour = workloads.run("neighbour")
    id = workloads.run("stops", labels=ONE)
    until_alone(sidecar, id)
    workloads.api.act(id, "stop")
    sidecar.until(id, lambda it: it.phase == "exited", "seen as stopped")
    assert kernel.once_running(neighbour) == REST
    if workloads.api.tells_of_the_stopped:
        # No settling waits for the engine's record.
        eventually(lambda: configured(workloads, id) == LAST, "it would start there")
    workloads.api.act(id, "start")
    assert started_on(workloads, kernel, id, LAST)
    workloads.api.act(id, "stop")
    eventually(lambda: kernel.allowed(neighbour) == online(), "given back after the linger")
    until_configured(sidecar, workloads, id, online())
    workloads.api.act(id, "start")
    until_alone(sidecar, id)


def test_a_parked_container_cannot_start_on_the_cpus_of_another(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """The first stops, its linger ends, the second takes over: the first one, when it returns, shares no CPU with
    it.
    """
    first = workloads.run("first", labels=ONE)
    until_alone(running, first)
    workloads.api.act(first, "stop")
    until_shared(running, first)
    second = workloads.run("second", labels=ONE)
    until_alone(running, second)
    until_configured(running, workloads, first, REST)
    workloads.api.act(first, "start")
    assert started_on(workloads, kernel, first, REST)
    running.until(first, lambda it: it.refusal, "refused")
    assert kernel.once_running(second) == LAST


def test_a_restart_keeps_the_cpus(sidecar: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """`docker restart` is a stop and a start within the linger: the same grant, in force at once."""
    sidecar.configure(linger="1m")
    sidecar.start()
    id = workloads.run("restarts", labels=ONE)
    until_alone(sidecar, id)
    grant = by_id(sidecar.books().assignments)[id].since
    for _ in range(2):
        workloads.api.act(id, "restart", t="0")
        assert started_on(workloads, kernel, id, LAST)
    until_alone(sidecar, id)
    assert by_id(sidecar.books().assignments)[id].since == grant


def test_a_restart_policy_keeps_the_cpus(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """A container that dies and is restarted by the engine comes back on its own CPUs."""
    id = workloads.run("dies", labels=ONE, RestartPolicy={"Name": "always"})
    until_alone(running, id)
    before = workloads.api.inspect(id)["State"]["Pid"]
    kernel.end(id)
    eventually(lambda: workloads.api.inspect(id)["State"]["Pid"] not in (0, before), "the engine restarted it")
    eventually(lambda: kernel.allowed(id), "it runs again")
    assert started_on(workloads, kernel, id, LAST)
    until_alone(running, id)


def test_a_container_that_removes_itself_gives_back_at_once(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """`--rm`: when it ends it is gone, and nothing is remembered of it."""
    neighbour = workloads.run("neighbour")
    id = workloads.run("brief", labels=ONE, AutoRemove=True)
    until_alone(running, id)
    kernel.end(id)
    eventually(lambda: kernel.allowed(neighbour) == online(), "the pool is whole again")
    eventually(lambda: id not in by_id(running.books().originals), "forgotten")
    eventually(lambda: running.projection(id) is None, "told no more")
    eventually(lambda: running.container(id) is None, "gone from the status")


def test_a_paused_container_keeps_its_cpus(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """Frozen processes still occupy their CPUs: nothing is returned, whatever the linger."""
    neighbour = workloads.run("neighbour")
    id = workloads.run("pauses", labels=ONE)
    until_alone(running, id)
    workloads.api.act(id, "pause")
    running.until(id, lambda it: it.phase == "paused", "seen as paused")
    stays(lambda: kernel.allowed(id) == LAST and kernel.allowed(neighbour) == REST, "alone, paused", seconds=0.6)
    workloads.api.act(id, "unpause")
    until_alone(running, id)


def test_a_paused_neighbour_leaves_too(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """A paused container could go on at any moment, so it is moved while it is frozen."""
    neighbour = workloads.run("frozen")
    running.until_quiet()
    workloads.api.act(neighbour, "pause")
    until_alone(running, workloads.run("exclusive", labels=ONE))
    assert kernel.once_running(neighbour) == REST


def test_a_renamed_container_keeps_its_cpus_under_its_new_name(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """The id identifies it; the name is for people."""
    id = workloads.run("old", labels=ONE)
    until_alone(running, id)
    name = f"{workloads.prefix}-new"
    workloads.api.act(id, "rename", name=name)
    running.until(id, lambda it: it.name == name and it.is_settled, "renamed")
    eventually(lambda: (told := running.projection(id)) is not None and told.name == name, "told under its new name")
    assert kernel.once_running(id) == LAST


def test_a_container_removed_while_it_runs_gives_back_at_once(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """`docker rm -f`: no linger is waited for."""
    sidecar.configure(linger="1m")
    sidecar.start()
    neighbour = workloads.run("neighbour")
    id = workloads.run("removed", labels=ONE)
    until_alone(sidecar, id)
    workloads.api.remove(id)
    eventually(lambda: kernel.allowed(neighbour) == online(), "the pool is whole again")
    successor = workloads.run("successor", labels=ONE)
    until_alone(sidecar, successor)


def test_a_burst_of_neighbours_is_out_before_anybody_is_called_alone(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """When the exclusive container is told that it is settled, no neighbour is on its CPUs any more."""
    neighbours = [workloads.run(f"neighbour-{n}") for n in range(6)]
    running.until_quiet()
    id = workloads.run("exclusive", labels=ONE)
    eventually(lambda: (told := running.projection(id)) is not None and told.settled and told.cpus == LAST, "settled")
    assert [kernel.allowed(each) for each in neighbours] == [REST] * len(neighbours)
    assert kernel.once_running(id) == LAST
