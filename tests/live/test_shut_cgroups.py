"""A tenant that can write its own cgroup, and closes it to a sidecar that was not given CAP_DAC_OVERRIDE."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.live.containers import Containers
from tests.live.kernelview import KernelView, online
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, SHIPPED, SidecarProcess
from tests.live.waiting import PATIENCE, eventually, stays

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(120 * PATIENCE)]

FEWER: Final = ("setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs")
BOUND_SECONDS: Final = 1.0
"""From a write that nothing undoes until an owner reads it: some milliseconds on an idle host."""
OPEN_SECONDS: Final = 5.0
"""From when a group inside is open again until the container has left: a second on an idle host."""
WRITES: Final = 10


@pytest.fixture(autouse=True)
def fewer(sidecar: SidecarProcess) -> None:
    """Have the sidecar started without powers, before others start it. A user's own has none."""
    if os.geteuid() != 0:
        pytest.skip("a sidecar with fewer powers is started by root")
    if sidecar.wrapper == SHIPPED:
        sidecar.wrapper = FEWER


def closed(group: Path) -> None:
    """Take all rights to the cpuset away."""
    (group / "cpuset.cpus").chmod(0)


def read_only(group: Path) -> None:
    """Leave the right to read it."""
    (group / "cpuset.cpus").chmod(0o444)


def given_away(group: Path) -> None:
    """Give it to another user."""
    os.chown(group / "cpuset.cpus", 1234, 1234)


@pytest.mark.intrudes("a neighbour puts itself onto the CPU of the owner")
@pytest.mark.parametrize("close", [closed, read_only, given_away])
def test_no_owner_is_told_that_it_is_alone_beside_a_container_that_closed_its_cgroup(
    close: Callable[[Path], None],
    guarded_pair: tuple[str, str],
    sidecar: SidecarProcess,
    kernel: KernelView,
    record_property: Callable[[str, object], None],
) -> None:
    """From its first write on: no inventory is needed, and the engine puts it back each time."""
    owner, neighbour = guarded_pair

    def is_vouched() -> bool:
        told = sidecar.projection(owner)
        return told is None or told.alone

    group = kernel.groups()[neighbour]
    assert is_vouched()
    close(group)
    for _ in range(WRITES):
        began = time.monotonic()
        (group / "cpuset.cpus").write_text(str(online()))
        eventually(lambda: not is_vouched(), "the owner is told", seconds=BOUND_SECONDS)
        record_property("told after", time.monotonic() - began)
        stays(lambda: not is_vouched(), "it is told so", seconds=0.3)
    said = "-neighbour is out of the sidecar's hand"
    eventually(lambda: any(said in each for each in sidecar.status().problems), "it is said which one")
    eventually(lambda: not kernel.allowed(neighbour) & LAST, "the engine puts it back", seconds=5)
    stays(lambda: not is_vouched(), "it is not alone before a minute of calm", seconds=2.0)


@pytest.mark.intrudes("a neighbour cannot leave the CPU of an owner that waits for it")
@pytest.mark.skipif(not Path("/sys/fs/cgroup/cpuset/cpuset.cpus").exists(), reason="only on v1 it is in the way")
@pytest.mark.parametrize("close", [closed, read_only, given_away])
def test_a_closed_group_inside_a_container_is_named_and_leaves_as_soon_as_it_is_open_again(
    close: Callable[[Path], None],
    own_engine: PrivateEngine,
    sidecar: SidecarProcess,
    workloads: Containers,
    kernel: KernelView,
) -> None:
    """Its engine cannot move the container at all: it writes no groups inside."""
    sidecar.configure(hand="auto", reconcile_period="1h")
    sidecar.start()
    neighbour = workloads.run("neighbour")
    sidecar.until_quiet()
    group = kernel.groups()[neighbour] / "sub"
    group.mkdir()
    for name in ("cpuset.mems", "cpuset.cpus"):
        (group / name).write_text((group.parent / name).read_text())
    close(group)
    owner = workloads.run("owner", labels={"cpuset.exclusive": "1"})
    reason = f"{neighbour}/sub cannot be written: permission denied"
    said = "-neighbour is out of the sidecar's hand"
    eventually(lambda: any(said in each and reason in each for each in sidecar.status().problems), "it is named")
    assert reason in sidecar.command("explain", neighbour[:12]).stdout
    assert not sidecar.until(owner, lambda it: not it.is_settled, "it waits").is_settled
    stays(lambda: kernel.allowed(neighbour) >= LAST, "it cannot leave", seconds=1.0)
    os.chown(group / "cpuset.cpus", 0, 0)
    (group / "cpuset.cpus").chmod(0o644)
    eventually(lambda: not kernel.allowed(neighbour) & LAST, "it leaves", seconds=OPEN_SECONDS)
    sidecar.until(owner, lambda it: it.is_settled, "it waits no more")
    group.rmdir()
