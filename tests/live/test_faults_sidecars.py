"""The sidecar itself: frozen for long, killed at random moments, running twice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.live.churn import Churn
from tests.live.containers import Containers
from tests.live.kernelview import KernelView
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, SidecarProcess
from tests.live.waiting import PATIENCE, stays
from tests.live.watching import ONE, WAITING, given_back, until_alone, until_shared, watched

pytestmark = pytest.mark.live

FROZEN_SECONDS = 8.0
"""Long enough for engines to fill the pipe of a reader that does not read, at the churn's rate."""


@pytest.mark.slow
def test_a_sidecar_that_was_frozen_catches_up(ground: Ground, tmp_path: Path) -> None:
    """No container is moved meanwhile, and files grow stale: once it goes on, they are compared with the kernel again,
    and everything can be released.
    """
    churn = Churn(ground.api, tmp_path, seed=23, is_private=ground.is_private)

    def freeze() -> None:
        churn.sidecar.until_ready()
        for seconds in (0.5, FROZEN_SECONDS):
            time.sleep(1.0 * PATIENCE)
            churn.sidecar.freeze()
            time.sleep(seconds * PATIENCE)
            churn.sidecar.thaw()

    report = churn.run(meanwhile=freeze)
    # A container that starts while the sidecar is frozen is not confined: true files may become false until it goes on.
    assert [each for each in report.violations if not each.startswith("sample ")] == []
    assert report.containers > 5


def test_an_owner_that_stays_is_alone_through_freezing_and_killing(
    sidecar: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """Its CPU is never taken: neither by a frozen sidecar, nor by its successors, nor by a container that was pinned
    before.
    """
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner", labels=ONE)
    heir = workloads.run("heir", labels=WAITING)
    for each in (neighbour, heir):
        until_shared(sidecar, each)
    until_alone(sidecar, owner)
    rng = random.Random(24)
    with watched(sidecar, neighbour, owner, heir):
        sidecar.freeze()
        stays(lambda: kernel.allowed(owner) == LAST, "alone", seconds=1.0)
        sidecar.thaw()
        for _ in range(4):
            time.sleep(rng.uniform(0, 0.5) * PATIENCE)
            sidecar.kill()
            assert kernel.allowed(owner) == LAST
            sidecar.start(until_ready=False)
        sidecar.until_ready()
        until_alone(sidecar, owner)
        workloads.api.remove(owner)
        until_alone(sidecar, heir)
    given_back(sidecar, workloads, {heir: {}, neighbour: {}})


def test_a_second_sidecar_is_refused_while_the_first_is_frozen(
    running: SidecarProcess, workloads: Containers, kernel: KernelView
) -> None:
    """The first does not answer, but still holds its lock; `release` is refused, too."""
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    running.freeze()
    try:
        for command in ("run", "release"):
            refused = running.command(command)
            assert refused.returncode == 1
            assert f"another sidecar (process {running.pid})" in refused.stderr
        assert kernel.allowed(owner) == LAST
    finally:
        running.thaw()
    until_alone(running, owner)


def test_a_second_sidecar_with_another_directory_is_refused(
    running: SidecarProcess, ground: Ground, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """Its lock is the engine's: it reads where the first is. `release` reads that no daemon has run there. A killed one
    holds nothing.
    """
    owner = workloads.run("owner", labels=ONE)
    until_alone(running, owner)
    second = SidecarProcess(tmp_path / "second", ground.api.socket_path)
    says = {
        "run": f"another sidecar manages this engine (process {running.pid}",
        "release": "no daemon has run with this state_dir, or what it wrote was deleted since; nothing was changed",
    }
    for command, sentence in says.items():
        refused = second.command(command)
        assert refused.returncode == 1
        assert sentence in refused.stderr
    assert kernel.allowed(owner) == LAST
    running.kill()
    running.start()
    until_alone(running, owner)
    given_back(running, workloads, {owner: {}})
