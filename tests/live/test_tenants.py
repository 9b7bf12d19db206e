"""Hostile tenants: they create and update containers of their own, and do nothing else. Others get what is promised."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from sidecar.observe.newcomers import CROWD_SECONDS
from sidecar.status.document import SharingStatus
from tests.live.births import judged
from tests.live.containers import Containers
from tests.live.crowd import footprint
from tests.live.engineapi import ApiError, EngineApi, lock_held
from tests.live.kernelview import KernelView, allowed_of, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stage import ask
from tests.live.waiting import PATIENCE, eventually, stays
from tests.live.watching import ONE, WAITING, problems, until_alone, until_shared

pytestmark = [pytest.mark.live, pytest.mark.slow]

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
"""Seconds within which an arrival is alone, on a machine that is busy with other tests."""


@pytest.fixture(autouse=True)
def on_docker(ground: Ground) -> None:
    """Skip where these acts are not possible: they are Docker's routes, on an engine of the tests' own."""
    if ground.api.is_podman or not ground.is_private:
        pytest.skip("these are acts by Docker's routes")


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
            began = time.monotonic()
            owner = workloads.run(f"owner-{arrival}", labels=WAITING)
            until_alone(running, owner)
            took = time.monotonic() - began
            assert took <= UNDISTURBED, f"arrival {arrival} was alone after {took:.1f} s"
            assert kernel.allowed(owner) == LAST
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
        began = time.monotonic()
        owner = workloads.run(f"owner-{arrival}", labels=WAITING)
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
    eventually(lambda: file.read_text().strip() == str(LAST), "the owner is told by name")
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
            began = time.monotonic()
            until_shared(running, workloads.run("newcomer"))
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


@pytest.mark.intrudes("a container is born inside the owner")
def test_a_cgroup_inside_an_owners_is_told_and_counted(
    running: SidecarProcess, own_engine: PrivateEngine, workloads: Containers
) -> None:
    """It cannot be moved away: the owner is told beside which one it runs, and all is well when that is gone."""
    if own_engine.cgroup_parent.endswith(".slice"):
        pytest.skip("systemd takes no cgroup of a container as a parent")
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    inside = workloads.run("inside", CgroupParent=f"{own_engine.cgroup_parent}/{owner}")
    found = running.until(owner, lambda it: it.neighbours, "not alone any more")
    assert not found.is_alone
    assert [each.name for each in found.neighbours] == [f"{workloads.prefix}-inside"]
    [said] = running.until(inside, lambda it: it.warnings, "what to do").warnings
    assert "recreate it with another cgroup_parent" in said
    eventually(lambda: (told := running.projection(owner)) and not told.alone, "it is told")
    workloads.api.remove(inside)
    until_alone(running, owner)
    eventually(lambda: (told := running.projection(owner)) and told.alone, "alone again")


@pytest.mark.intrudes("a container is born inside the owner")
def test_what_is_inside_a_container_holds_up_its_first_start_alone(
    sidecar: SidecarProcess, own_engine: PrivateEngine, workloads: Containers
) -> None:
    """While the CPUs of an owner that was stopped are kept for it, what is inside runs on them, and the owner starts
    again beside it. On version 1 a container whose group was made for what is inside, before its own first start,
    starts once that is gone: runc cannot write `devices.deny` before.
    """
    if own_engine.cgroup_parent.endswith(".slice"):
        pytest.skip("systemd takes no cgroup of a container as a parent")
    sidecar.configure(linger="60s")
    sidecar.start()
    owner = workloads.run("owner", labels=ONE)
    until_alone(sidecar, owner)
    inside = workloads.run("inside", CgroupParent=f"{own_engine.cgroup_parent}/{owner}")
    process = Path(f"/proc/{workloads.api.inspect(inside)['State']['Pid']}/status")
    workloads.api.act(owner, "stop")
    assert allowed_of(process.read_text()) == LAST
    workloads.api.act(owner, "start")
    sidecar.until(owner, lambda it: it.neighbours, "it is back, and what is inside is told")
    late = workloads.create("late")
    inner = workloads.run("inner", CgroupParent=f"{own_engine.cgroup_parent}/{late}")
    if Path("/sys/fs/cgroup/devices").exists():
        with pytest.raises(ApiError, match=r"devices\.deny: invalid argument"):
            workloads.api.act(late, "start")
    workloads.api.remove(inner)
    workloads.api.act(late, "start")
    assert workloads.api.inspect(late)["State"]["Running"]


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
    assert eventually(lambda: running.container(out), "it is known").warnings or act == "pin"


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


@pytest.mark.parametrize("whose", ["a container's inside another", "the owner's"])
def test_a_parent_that_is_called_like_a_container_is_nobodys(
    whose: str,
    request: pytest.FixtureRequest,
    running: SidecarProcess,
    own_engine: PrivateEngine,
    workloads: Containers,
    kernel: KernelView,
    tmp_path: Path,
) -> None:
    """Its name is that of a container which is elsewhere: what is inside gets neither that one's CPUs nor all."""
    if own_engine.cgroup_parent.endswith(".slice"):
        pytest.skip("systemd takes no cgroup of a container as a parent")
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    engines = own_engine.cgroup_parent
    for number in range(ARRIVALS):
        if whose == "the owner's":
            parent = f"{engines}/side/{owner}"
        else:
            outer = workloads.run(f"outer-{number}")
            parent = f"{engines}/{workloads.run(f'inner-{number}', CgroupParent=f'{engines}/{outer}')}"
        request.addfinalizer(partial(remove_groups, parent))
        evil = workloads.create(f"evil-{number}", CgroupParent=parent)
        running.until(evil, lambda it: it.warnings, "what to do")
        with judged(kernel, owner, tmp_path) as seen:
            workloads.api.act(evil, "start")
            time.sleep(1.0)
        assert seen.notes is not None
        assert any(evil in group for group in seen.notes.groups())
        stayed = [each.state / 1e6 for each in seen.notes.stays() if evil in each.group]
        assert sum(stayed) <= INSTANT_MS, stayed
        workloads.api.remove(evil)
    until_alone(running, owner)


def remove_groups(path: str) -> None:
    """Remove the empty groups of a path, the deepest first, in all hierarchies."""
    names = path.strip("/").split("/") if path != "/" else []
    for depth in range(len(names), 0, -1):
        for each in Path("/sys/fs/cgroup").glob("/".join(("*", *names[:depth]))):
            with suppress(OSError):
                each.rmdir()


def written_bytes(pid: int) -> int:
    """Return how many bytes a process has written, to files and elsewhere."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def widen(api: EngineApi, id: str, is_over: threading.Event) -> None:
    """Update a container to all CPUs, again and again."""
    while not is_over.is_set():
        with suppress(ApiError, OSError):
            api.update(id, CpusetCpus=str(online()))


@pytest.mark.intrudes("neighbours are updated onto the CPU of the owner")
def test_containers_inside_ones_own_hold_no_owners_cpu(
    running: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """A container, one inside its cgroup, and one inside that, all widened by their author's requests without a pause.
    On version 1 the outer group cannot leave a CPU that an inner one has.
    """
    if own_engine.cgroup_parent.endswith(".slice"):
        pytest.skip("systemd takes no cgroup of a container as a parent")
    chain: list[str] = []
    for number in range(3):
        parent = "/".join((own_engine.cgroup_parent, *chain))
        chain.append(workloads.run(f"nested-{number}", CgroupParent=parent))
    outermost = kernel.parent(chain[0]) / chain[0]
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    is_over = threading.Event()
    users = [threading.Thread(target=widen, args=(workloads.api, id, is_over)) for id in chain for _ in range(2)]
    with judged(kernel, owner, tmp_path) as seen:
        for each in users:
            each.start()
        time.sleep(LOOP_SECONDS)
        is_over.set()
        for each in users:
            each.join()
    print(seen.exposure)
    assert seen.exposure.percent <= 5.0, seen.exposure
    eventually(lambda: kernel.allowed_below(outermost) == REST, "all of them are off the owner's CPU")
    until_alone(running, owner)
    workloads.api.remove(owner)
    eventually(lambda: kernel.allowed_below(outermost) == online(), "all of them have all CPUs again")
    # The kernel keeps its group, because the others are inside it.
    workloads.api.remove(chain[0])
    second = workloads.run("second", labels=ONE)
    until_alone(running, second)
    eventually(lambda: kernel.allowed_below(outermost) == REST, "those that were left behind are off the owner's CPU")
    running.until(second, lambda it: it.is_alone, "it is told")
