"""Cgroup parents that tenants name. These tests have the machine to themselves: one hand alone watches the root."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Final

import pytest

from tests.live.births import judged
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, allowed_of
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import REST, SidecarProcess
from tests.live.test_tenants import widen
from tests.live.test_tenants_inside import remove_groups
from tests.live.waiting import eventually
from tests.live.watching import ONE, until_alone

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.usefixtures("dockers_routes")]

LOOP_SECONDS: Final = 3.0


@pytest.mark.intrudes("neighbours are updated onto the CPU of the owner")
@pytest.mark.parametrize("parent", ["/", "/elsewhere", "/NAME", "/elsewhere/NAME"])
def test_no_cgroup_parent_leads_onto_an_owners_cpu(
    parent: str,
    request: pytest.FixtureRequest,
    running: SidecarProcess,
    own_engine: PrivateEngine,
    workloads: Containers,
    kernel: KernelView,
    tmp_path: Path,
) -> None:
    """The root of the hierarchy, any other group, and one that only looks like a container: what is in it is updated
    without a pause, and is off the owner's CPU all the same.
    """
    if own_engine.cgroup_parent.endswith(".slice"):
        pytest.skip("systemd takes no such parent")
    named = parent.replace("elsewhere", f"{workloads.prefix}-elsewhere").replace("NAME", uuid.uuid4().hex * 2)
    # The engine leaves groups behind that it made on the way.
    request.addfinalizer(lambda: remove_groups(named))
    stray = workloads.run("stray", CgroupParent=named)
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    pid = int(workloads.api.inspect(stray)["State"]["Pid"])
    process = Path(f"/proc/{pid}/status")
    eventually(lambda: allowed_of(process.read_text()) == REST, "it is off the owner's CPU")
    running.until(owner, lambda it: it.is_alone, "it is told")
    is_over = threading.Event()
    users = [threading.Thread(target=widen, args=(workloads.api, stray, is_over)) for _ in range(3)]
    with judged(kernel, owner, tmp_path, kernel.parent_of_process(pid, stray)) as seen:
        for each in users:
            each.start()
        time.sleep(LOOP_SECONDS)
        is_over.set()
        for each in users:
            each.join()
    print(parent, seen.exposure)
    assert seen.exposure.percent <= 5.0, seen.exposure
    eventually(lambda: allowed_of(process.read_text()) == REST, "it is off the owner's CPU again")
    until_alone(running, owner)
    workloads.api.remove(stray)
