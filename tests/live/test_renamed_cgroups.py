"""A container's cgroup under another name, as the host's root can give it one on cgroup v1."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from sidecar.status.document import SharingStatus
from tests.live.containers import Containers
from tests.live.kernelview import KernelView, living, online
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually, stays

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(120 * PATIENCE),
    pytest.mark.skipif(not Path("/sys/fs/cgroup/cpuset/cpuset.cpus").exists(), reason="only cgroup v1 renames"),
]

BOUND_SECONDS: Final = 1.0
"""From a write into such a group until it is undone: some milliseconds on an idle host."""


@pytest.mark.intrudes("a neighbour is put onto the CPU of the owner, under another name")
def test_a_container_under_another_name_leaves_the_cpus_of_owners_that_are_there_and_that_come(
    guarded_pair: tuple[str, str], sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Its engine cannot move it there; the hand knows that it is a container's."""
    owner, neighbour = guarded_pair
    group = kernel.groups()[neighbour]
    renamed = group.with_name("astray")

    def has_left() -> bool:
        return {each.allowed for each in living(renamed / "cgroup.procs")} == {REST}

    def put_back() -> None:
        (renamed / "cpuset.cpus").write_text(str(online()))
        eventually(has_left, "it leaves the owner's CPU", seconds=BOUND_SECONDS)

    group.rename(renamed)
    try:
        put_back()
        stays(has_left, "it stays there", seconds=1.0)
        workloads.api.act(owner, "kill")
        eventually(lambda: {each.allowed for each in living(renamed / "cgroup.procs")} != {REST}, "there is room again")
        later = workloads.run("later", labels={"cpuset.exclusive": "1"})
        sidecar.until(later, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
        assert kernel.allowed(later) == LAST
        assert has_left()
        put_back()
    finally:
        renamed.rename(group)
    (group / "cpuset.cpus").write_text(str(online()))
    eventually(lambda: kernel.allowed(neighbour) == REST, "so it does under its own", seconds=BOUND_SECONDS)
