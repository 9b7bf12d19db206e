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
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import PATIENCE, eventually, stays
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


def test_two_sidecars_on_one_engine_lose_no_container(
    running: SidecarProcess, ground: Ground, workloads: Containers, kernel: KernelView, tmp_path: Path
) -> None:
    """With separate States no lock keeps them apart; do not do this. The second takes containers that the first has
    pinned for pinned by hand, and leaves them alone; when it releases its own, the first repairs the rest.
    """
    owner, neighbour = workloads.run("owner", labels=ONE), workloads.run("neighbour")
    until_alone(running, owner)
    until_shared(running, neighbour)
    second = SidecarProcess(tmp_path / "second", ground.api.socket_path)
    try:
        second.start()
        eventually(lambda: second.container(owner), "the second sees it")
        late = workloads.run("late")
        for each in (running, second):
            eventually(lambda each=each: each.container(late), "both see a newcomer")  # type: ignore[misc]
        eventually(lambda: kernel.allowed(late) == REST, "it is confined")
        assert second.terminate() == 0
        released = second.command("release")
        assert released.returncode == 0, released.stderr
    finally:
        second.kill()
    until_alone(running, owner)
    for id in (neighbour, late):
        until_shared(running, id)
    assert (kernel.allowed(owner), kernel.allowed(neighbour), kernel.allowed(late)) == (LAST, REST, REST)
    given_back(running, workloads, {owner: {}, neighbour: {}, late: {}})
