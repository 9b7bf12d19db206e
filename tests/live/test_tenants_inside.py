"""Hostile tenants whose containers lie inside others: in an owner's cgroup, their own, or one that an id names."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.live.births import judged
from tests.live.containers import Containers
from tests.live.engineapi import ApiError, lock_held
from tests.live.kernelview import KernelView, allowed_of, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.test_tenants import LOOP_SECONDS, widen
from tests.live.waiting import eventually
from tests.live.watching import ONE, until_alone

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.usefixtures("dockers_nesting")]

INSTANT_MS: Final = 5.0
"""A runtime that sets up a group moves its own process in before its write there was overwritten."""

NESTED: Final = 4
"""Containers whose parents are called like others."""


@pytest.mark.intrudes("a container is born inside the owner")
def test_a_cgroup_inside_an_owners_is_told_and_counted(
    running: SidecarProcess, own_engine: PrivateEngine, workloads: Containers
) -> None:
    """It cannot be moved away: the owner is told beside which one it runs, and all is well when that is gone."""
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    inside = workloads.run("inside", CgroupParent=f"{own_engine.cgroup_parent}/{owner}")
    found = running.until(
        owner,
        lambda it: [each.name for each in it.neighbours] == [f"{workloads.prefix}-inside"],
        "it is told beside which one, by the name that the engine tells after its group was made",
    )
    assert not found.is_alone
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
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    engines = own_engine.cgroup_parent
    for number in range(NESTED):
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


def test_the_name_of_one_that_only_the_books_place_is_nobodys_either(
    request: pytest.FixtureRequest,
    running: SidecarProcess,
    own_engine: PrivateEngine,
    workloads: Containers,
    kernel: KernelView,
    tmp_path: Path,
) -> None:
    """A slow copy holds the owner's lock while the daemon is killed and starts again: from then on the owner is known
    by a glance alone, which shows no parent.
    """
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    parent = f"{own_engine.cgroup_parent}/side/{owner}"
    request.addfinalizer(partial(remove_groups, parent))
    with lock_held(workloads.api, owner):
        running.kill()
        running.start()
        evil = workloads.create("evil", CgroupParent=parent)
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


@pytest.mark.intrudes("neighbours are updated onto the CPU of the owner")
def test_containers_inside_ones_own_hold_no_owners_cpu(
    running: SidecarProcess, own_engine: PrivateEngine, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """A container, one inside its cgroup, and one inside that, all widened by their author's requests without a pause.
    On version 1 the outer group cannot leave a CPU that an inner one has.
    """
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


def remove_groups(path: str) -> None:
    """Remove the empty groups of a path, the deepest first, in all hierarchies."""
    names = path.strip("/").split("/") if path != "/" else []
    hierarchies = list(Path("/sys/fs/cgroup").glob("*/"))
    for depth in range(len(names), 0, -1):
        for each in hierarchies:
            with suppress(OSError):
                os.rmdir("/".join((str(each), *names[:depth])))
