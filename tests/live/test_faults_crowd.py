"""Containers that come and go as fast as the engine allows: no trace of them stays, in State, files or memory."""

from __future__ import annotations

import pytest

from tests.live.containers import Containers
from tests.live.crowd import crowd, footprint
from tests.live.kernelview import KernelView
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import ONE, until_alone

pytestmark = pytest.mark.live


@pytest.mark.slow
def test_a_crowd_leaves_nothing_behind(running: SidecarProcess, workloads: Containers, kernel: KernelView) -> None:
    """No grants, no originals, no directories, no open files, no threads; the next one is served as usual."""
    crowd(running, workloads, containers=20)
    report = crowd(running, workloads, containers=150)
    assert report.left == []
    assert report.started
    # A connection that answers at this instant is none that is kept, and an idle thread ends after ten seconds.
    eventually(lambda: footprint(running.pid).descriptors <= report.before.descriptors + 8, "no descriptor is kept")
    eventually(lambda: footprint(running.pid).threads <= report.before.threads + 2, "no thread is kept")
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    assert kernel.once_running(owner) == LAST
    assert not running.has_logged("the engine cannot be reached")
