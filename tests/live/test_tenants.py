"""Hostile tenants: they create and update containers of their own, and do nothing else. Others get what is promised."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from sidecar.observe.newcomers import CROWD_SECONDS
from sidecar.status.document import SharingStatus
from tests.live.births import judged
from tests.live.containers import Containers
from tests.live.crowd import footprint
from tests.live.engineapi import ApiError, EngineApi, lock_held
from tests.live.kernelview import KernelView, online
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stage import ask
from tests.live.waiting import PATIENCE, eventually, stays
from tests.live.watching import ONE, WAITING, problems, until_alone, until_shared

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.usefixtures("dockers_routes")]

GIANT: Final = 97 * 1024 * 1024
"""Bytes of a label."""

MOST_MEMORY: Final = 150 * 1024
"""KiB that the daemon may have in memory, whatever tenants do."""

MOUNTED: Final = 30
MOUNTS: Final = 256
"""Mount points of each of these, of 3.8 KB: together 29 MB."""

MOST_WRITTEN: Final = 8 * 1024 * 1024
"""Bytes that the daemon writes about some arrivals, and of its journal."""

INSTANT_MS: Final = 5.0
"""A runtime that sets up a group moves its own process in before its write there was overwritten."""

LOCKS: Final = 30
LOOPS: Final = 6
LOOP_SECONDS: Final = 3.0

ARRIVALS: Final = 4

UNDISTURBED: Final = 3.0 * PATIENCE
"""Seconds from the engine's answer to a start until it is alone, on a machine that is busy with other tests."""


@pytest.mark.intrudes("a neighbour is put onto the CPU of the owner")
def test_a_giant_label_delays_no_other(sidecar: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """A label of 97 MiB on a container that never runs: the daemon gets ready, places others, and puts drift right."""
    workloads.create("giant", labels={"x": "a" * GIANT})
    sidecar.start()
    plain, owner = workloads.run("plain"), workloads.run("owner", labels=ONE)
    until_alone(sidecar, owner)
    until_shared(sidecar, plain)
    for _ in range(2):
        assert kernel.write_cpuset(plain, online())
        eventually(lambda: kernel.allowed(plain) == REST, "the drift is put right", seconds=10 * PATIENCE)
    assert footprint(sidecar.pid).resident_kib <= MOST_MEMORY


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "not looked at yet"])
def test_locks_that_are_held_delay_no_arrival(
    is_known: bool, running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Thirty containers with a copy that nobody reads, so that the engine can neither describe nor move them."""
    with ExitStack() as stack:
        held = []
        for number in range(LOCKS):
            held.append(workloads.run(f"held-{number}"))
            if not is_known:
                stack.enter_context(lock_held(workloads.api, held[-1]))
        if is_known:
            running.until_quiet()
            for id in held:
                stack.enter_context(lock_held(workloads.api, id))
        else:
            # Looks at what came as one of a crowd begin after that.
            time.sleep(CROWD_SECONDS)
        for arrival in range(2):
            owner = workloads.run(f"owner-{arrival}", labels=WAITING)
            began = time.monotonic()
            until_alone(running, owner)
            took = time.monotonic() - began
            assert took <= UNDISTURBED, f"arrival {arrival} was alone after {took:.1f} s"
            assert kernel.once_running(owner) == LAST
            assert all(kernel.allowed(id) == REST for id in held)
            workloads.api.remove(owner)


def test_mounts_of_any_size_delay_no_decision(running: SidecarProcess, workloads: Containers) -> None:
    """Containers that never run, with a megabyte of mount points each: what is kept and written of one is little."""
    target = "/" + "/".join(["m" * 250] * 15)
    for number in range(MOUNTED):
        mounts = [{"Type": "tmpfs", "Target": f"{target}/{place}"} for place in range(MOUNTS)]
        workloads.create(f"mounted-{number}", Mounts=mounts)
    before = written_bytes(running.pid)
    for arrival in range(3):
        owner = workloads.run(f"owner-{arrival}", labels=WAITING)
        began = time.monotonic()
        until_alone(running, owner)
        took = time.monotonic() - began
        assert took <= UNDISTURBED, f"arrival {arrival} was alone after {took:.1f} s"
        workloads.api.remove(owner)
    assert written_bytes(running.pid) - before <= MOST_WRITTEN
    journals = [path for path in running.state_dir.iterdir() if path.name.startswith("journal")]
    assert sum(path.stat().st_size for path in journals) <= MOST_WRITTEN
    assert footprint(running.pid).resident_kib <= MOST_MEMORY


def test_a_name_stays_with_the_container_that_claimed_it_first(running: SidecarProcess, workloads: Containers) -> None:
    """Ten others claim the name of an owner's projection by label."""
    name = {"cpuset.projection": "voice"}
    owner = workloads.run("owner", labels={**ONE, **name})
    until_alone(running, owner)
    file = running.projections / "by-name/voice/cpuset"
    eventually(lambda: file.exists() and file.read_text().strip() == str(LAST), "the owner is told by name")
    for number in range(10):
        workloads.run(f"thief-{number}", labels=name)
    stays(lambda: file.read_text().strip() == str(LAST), "it stays the owner's", seconds=1.0)
    eventually(lambda: "voice" in problems(running), "the claim is told")


@pytest.mark.intrudes("neighbours are updated onto the CPU of the owner")
def test_updates_in_a_loop_keep_no_container_on_an_owners_cpu(
    running: SidecarProcess, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """Six containers, each widened by its author's requests without a pause. A newcomer beside them is placed."""
    loops = [workloads.run(f"loop-{number}") for number in range(LOOPS)]
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    # What comes by itself is no part of the crowd before it.
    time.sleep(CROWD_SECONDS)
    is_over = threading.Event()
    users = [threading.Thread(target=widen, args=(workloads.api, id, is_over)) for id in loops]
    with judged(kernel, owner, tmp_path) as seen:
        for each in users:
            each.start()
        try:
            time.sleep(LOOP_SECONDS)
            newcomer = workloads.run("newcomer")
            began = time.monotonic()
            until_shared(running, newcomer)
            took = time.monotonic() - began
        finally:
            is_over.set()
            for each in users:
                each.join()
    print(seen.exposure, f"newcomer {took:.2f} s")
    assert seen.exposure.percent <= 5.0, seen.exposure
    # The requests keep the engine busy, too.
    assert took <= 3 * UNDISTURBED
    until_alone(running, owner)


def test_a_name_of_the_unmanaged_hides_no_container_that_runs(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """An owner that takes a name which is left alone keeps counting where it runs: no second owner comes there."""
    sidecar.configure(unmanaged=[f"{workloads.prefix}-db-*"])
    sidecar.start()
    first = workloads.run("first", labels=ONE)
    until_alone(sidecar, first)
    workloads.api.ask("POST", f"containers/{first}/rename", name=f"{workloads.prefix}-db-1")
    second = workloads.run("second", labels=WAITING)

    def is_apart() -> bool:
        told = sidecar.projection(second)
        is_owner = told is not None and told.sharing.value == "exclusive" and told.settled
        return not (is_owner and kernel.allowed(first) & kernel.allowed(second))

    stays(is_apart, "no two on one CPU", seconds=3.0)
    until_alone(sidecar, second)
    assert is_apart()


@pytest.mark.parametrize("act", ["label", "pin"])
def test_no_container_takes_itself_out(
    act: str, running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """By `cpuset.manage=off`, or by a pin on all CPUs: it runs in the shared pool, and the owner is alone."""
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    labels, host = ({"cpuset.manage": "off"}, {}) if act == "label" else ({}, {"CpusetCpus": str(online())})
    out = workloads.run("out", labels=labels, **host)
    eventually(lambda: kernel.allowed(out) == REST, "it is put off the owner's CPU")
    until_alone(running, owner)
    running.until(out, lambda it: it.warnings or act == "pin", "it is known, and told what its label does not do")


def test_a_pin_that_never_runs_delays_no_arrival(running: SidecarProcess, workloads: Containers) -> None:
    """Created onto the only CPU that can be granted, and never started."""
    workloads.create("pinned", CpusetCpus=str(LAST))
    until_alone(running, workloads.run("owner", labels=ONE))


def test_an_id_as_a_name_shadows_no_container(running: SidecarProcess, workloads: Containers) -> None:
    """A container that is named as another's id: the id goes on meaning the other."""
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    api = workloads.api
    wanted = {"Image": workloads.image, "Cmd": ["sleep", "3600"], "HostConfig": {"NetworkMode": "host"}}
    try:
        shadow = str(api.ask("POST", "containers/create", wanted, name=owner)["Id"])
    except ApiError as error:
        pytest.skip(f"this engine refuses such a name: {error.message}")
    workloads.made.append(shadow)
    running.until(shadow, lambda it: it.name == owner, "it is known")
    answer = json.loads(ask(running.state_dir, "GET", f"/v1/containers/{owner}"))
    assert answer["id"] == owner
    assert answer["sharing"] == SharingStatus.EXCLUSIVE


def written_bytes(pid: int) -> int:
    """Return how many bytes a process has written, to files and elsewhere."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def widen(api: EngineApi, id: str, is_over: threading.Event) -> None:
    """Update a container to all CPUs, again and again."""
    while not is_over.is_set():
        with suppress(ApiError, OSError):
            api.update(id, CpusetCpus=str(online()))
