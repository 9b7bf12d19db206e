"""Daemons that die: the sidecar and the engine are killed under churn, and the projections stay true throughout."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.status.document import SharingStatus
from tests.live.churn import Churn
from tests.live.churnreport import Report
from tests.live.containers import Containers
from tests.live.engineapi import EngineApi
from tests.live.kernelview import KernelView
from tests.live.privateengine import PrivateEngine
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.stricthost import everything_asks
from tests.live.waiting import PATIENCE, eventually

pytestmark = pytest.mark.live

ONE = {"cpuset.exclusive": "1"}


def must_keep_updates(api: EngineApi) -> None:
    """Skip engines that forget updates: between a start and its event, the loss is invisible."""
    if not api.keeps_updates:
        pytest.skip("this engine forgets updates at a start (Podman before 5.1): whoever starts is on others' CPUs")


def checked(report: Report) -> None:
    """Check that no rule was violated, and that there was something to see."""
    assert report.violations == []
    assert report.containers > 5
    assert report.samples > 50


@pytest.mark.slow
@pytest.mark.timeout(300 * PATIENCE)
@pytest.mark.parametrize("is_asked", [False, True], ids=["by events", "default runtime"])
def test_no_cpu_is_granted_twice_while_the_sidecar_is_killed(
    ground: Ground, private_engine: PrivateEngine | str, tmp_path: Path, is_asked: bool
) -> None:
    """Killed at random moments of a churn and started again: the State is complete each time, no container is called
    alone wrongly, and at the end the State agrees with the kernel and everything can be released. If every start asks,
    no newcomer ever touches an owner's CPUs.
    """
    must_keep_updates(ground.api)
    churn = Churn(ground.api, tmp_path, seed=20, is_private=ground.is_private, is_asked=is_asked)
    if not is_asked:
        report = churn.run(kills=5)
    elif isinstance(private_engine, str) or private_engine.program != "dockerd":
        pytest.skip("the default runtime is set up on a Docker engine of the tests' own only")
    else:
        with everything_asks(private_engine, tmp_path):
            report = churn.run(kills=5)
    checked(report)
    assert report.kills == 5


@pytest.mark.slow
@pytest.mark.timeout(300 * PATIENCE)
def test_no_cpu_is_granted_twice_while_the_engine_is_killed(
    ground: Ground, own_engine: PrivateEngine, tmp_path: Path
) -> None:
    """Stopped and killed in turn, with live-restore and without: the sidecar reconnects each time, and looks again."""
    must_keep_updates(own_engine.api)
    report = Churn(own_engine.api, tmp_path, seed=21, is_private=True).run(engine_restarts=4, engine=own_engine)
    checked(report)
    assert report.engine_restarts == 4


@pytest.mark.slow
@pytest.mark.parametrize("live_restore", [False, True], ids=["restarted", "live-restore"])
def test_an_owner_is_alone_again_after_its_engine_was_killed(
    own_engine: PrivateEngine,
    sidecar: SidecarProcess,
    workloads: Containers,
    kernel: KernelView,
    live_restore: bool,
) -> None:
    """The sidecar waits for the engine, reconnects, and finds every container in its place, or brings it back there."""
    if own_engine.api.is_podman and not live_restore:
        pytest.skip("containers of Podman always outlive its service")
    own_engine.stop()
    own_engine.start(live_restore=live_restore)
    sidecar.configure(linger="1m")
    sidecar.start()
    neighbour, id = workloads.run("neighbour"), workloads.run("owner", labels=ONE)
    sidecar.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone")
    own_engine.kill()
    eventually(lambda: not sidecar.status().is_ready, "the sidecar knows")
    assert kernel.allowed(id) == LAST
    own_engine.start(live_restore=live_restore)
    eventually(lambda: sidecar.status().is_ready, "the sidecar is back")
    if not live_restore:
        # Without live-restore the new engine kills the containers that the old one left.
        for each in (neighbour, id):
            eventually(lambda each=each: not kernel.allowed(each), "ended")  # type: ignore[misc]
            workloads.api.act(each, "start")
    assert kernel.once_running(id) == LAST
    sidecar.until(id, lambda it: it.sharing is SharingStatus.EXCLUSIVE and it.is_settled, "alone again")
    assert kernel.once_running(neighbour) == REST
