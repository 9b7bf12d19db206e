"""What exists after a start of the machine or of the engine, with ten containers that are restarted always."""

from __future__ import annotations

import shutil

import pytest

from tests.live.containers import Containers
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually

pytestmark = [pytest.mark.live, pytest.mark.slow]

ALWAYS = {"RestartPolicy": {"Name": "always"}}


@pytest.fixture
def ten(own_engine: PrivateEngine, running: SidecarProcess, workloads: Containers) -> tuple[str, ...]:
    """Run nine in the pool and, as the fifth, an owner; return the owner's id first."""
    if workloads.api.is_podman:
        pytest.skip("Podman has no daemon that starts containers: podman-restart.service does, or quadlets")
    before = [workloads.run(f"pool{number}", **ALWAYS) for number in range(4)]
    owner = workloads.run("owner", labels={"cpuset.exclusive": "1"}, **ALWAYS)
    after = [workloads.run(f"pool{number}", **ALWAYS) for number in range(4, 9)]
    ids = (owner, *before, *after)
    running.until(owner, lambda it: it.is_alone, "alone")
    return ids


def all_are_where_they_belong(kernel: KernelView, ids: tuple[str, ...], sidecar: SidecarProcess) -> None:
    """Wait until the owner is alone on its CPU, by the kernel, and told so, and all others are in the pool."""
    owner, *others = ids
    wanted = {owner: LAST, **dict.fromkeys(others, REST)}
    eventually(lambda: kernel.all_allowed(ids) == wanted, "all are where they belong")
    sidecar.until(owner, lambda it: it.is_alone, "alone")
    sidecar.until_quiet()
    assert kernel.all_allowed(ids) == wanted


def test_an_engine_that_is_restarted(
    ten: tuple[str, ...], own_engine: PrivateEngine, running: SidecarProcess, kernel: KernelView
) -> None:
    """As by `systemctl restart docker`: the sidecar stays."""
    own_engine.stop()
    own_engine.start()
    all_are_where_they_belong(kernel, ten, running)


@pytest.mark.parametrize("first", ["engine", "sidecar"])
def test_a_machine_that_starts_again(
    ten: tuple[str, ...], first: str, own_engine: PrivateEngine, running: SidecarProcess, kernel: KernelView
) -> None:
    """All ends, what is in memory is lost, and both start, in either page's order."""
    running.kill()
    own_engine.stop()
    shutil.rmtree(running.projections)
    if first == "sidecar":
        # It ends where its engine does not answer, and is started anew until it does, as its unit says.
        running.start(until_ready=False)
        eventually(lambda: not running.is_running, "it says that there is no engine")
    own_engine.start()
    running.start()
    all_are_where_they_belong(kernel, ten, running)
