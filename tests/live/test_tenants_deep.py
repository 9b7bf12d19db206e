"""Hostile tenants whose groups are nested deeper than a stack, or have longer paths than the kernel takes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.live.containers import Containers
from tests.live.kernelview import KernelView, allowed_of
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import REST, SidecarProcess
from tests.live.test_tenants_inside import remove_groups
from tests.live.waiting import eventually
from tests.live.watching import ONE, until_alone
from tests.support.deep_groups import nested

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.usefixtures("dockers_nesting")]

DEPTH: Final = 1100
"""Names of one letter in a cgroup parent: more than Python calls within each other, and less than a path may have."""


def test_no_depth_of_a_cgroup_parent_ends_the_daemon(
    request: pytest.FixtureRequest,
    running: SidecarProcess,
    own_engine: PrivateEngine,
    workloads: Containers,
) -> None:
    """Orders to others fail beside it on version 1, so that the host is mended; a start again meets it at once."""
    outer = workloads.run("outer")
    parent = "/".join((own_engine.cgroup_parent, outer, *["a"] * DEPTH))
    request.addfinalizer(partial(remove_groups, parent))
    deep = workloads.run("deep", CgroupParent=parent)
    process = Path(f"/proc/{workloads.api.inspect(deep)['State']['Pid']}/status")
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    eventually(lambda: allowed_of(process.read_text()) == REST, "it is off the owner's CPU")
    assert "RecursionError" not in running.log()
    running.kill()
    running.start()
    until_alone(running, owner)
    assert "RecursionError" not in running.log()


@pytest.mark.skipif(not Path("/sys/fs/cgroup/cpuset").exists(), reason="on version 2 nothing inside holds up")
def test_a_path_that_is_too_long_keeps_no_container_on_an_owners_cpu(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Its tenant can write the cgroup; and what is left of it after its end is in nobody's way."""
    tenant = workloads.run("tenant")
    group = kernel.parent(tenant) / tenant
    with nested(group, ["d" * 250] * 40) as innermost:
        owner = workloads.run("owner", labels=ONE)
        until_alone(running, owner)
        assert innermost.read("cpuset.cpus").strip() == str(REST)
        workloads.api.remove(tenant)
        workloads.api.remove(owner)
        second = workloads.run("second", labels=ONE)
        until_alone(running, second)
        running.kill()
        running.start()
        until_alone(running, second)
