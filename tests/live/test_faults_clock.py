"""Wall clocks that jump, forward and backward: timers use the steady clock, and order is by numbers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from state.projection import Projection
from tests.live.clocks import Clock, FakeClock, MachineClock
from tests.live.containers import Containers
from tests.live.faultproxy import FaultProxy
from tests.live.kernelview import KernelView
from tests.live.sidecarfixtures import Ground
from tests.live.sidecarprocess import LAST, REST, SidecarProcess
from tests.live.waiting import eventually
from tests.live.watching import ONE, WAITING, given_back, problems, until_alone, until_shared, watched

pytestmark = [pytest.mark.live, pytest.mark.slow]

DAY = 24 * 3600
JUMPS = (DAY, 400 * DAY, -4000 * DAY)


@pytest.fixture(params=["of-the-sidecar", "of-the-machine"])
def clock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Clock]:
    """Provide a clock that may jump."""
    made: Clock = FakeClock(tmp_path) if request.param == "of-the-sidecar" else MachineClock()
    yield made
    made.put_back()


@pytest.fixture
def proxy(ground: Ground, tmp_path: Path) -> Iterator[FaultProxy]:
    """Provide a proxy, to make the sidecar reconnect: it then asks for the events since a moment."""
    made = FaultProxy(ground.api.socket_path, tmp_path / "proxy.sock")
    yield made
    made.close()


def told_alone(sidecar: SidecarProcess, id: str) -> Projection | None:
    """Return what a container is told, if that is its own CPU."""
    told = sidecar.projection(id)
    return told if told and told.settled and told.cpus == LAST else None


def test_a_clock_that_jumps_changes_nothing(
    clock: Clock,
    proxy: FaultProxy,
    ground: Ground,
    sidecar: SidecarProcess,
    workloads: Containers,
    kernel: KernelView,
) -> None:
    """After each jump: no container is moved, a new stream misses nothing, a stopped owner's CPUs are granted again in
    time, and generations go on, whatever the files' timestamps.
    """
    sidecar.wrapper = clock.wrapper
    sidecar.configure(engine=f"unix://{proxy.path}")
    sidecar.start()
    neighbour, owner = workloads.run("neighbour"), workloads.run("owner-0", labels=ONE)
    until_alone(sidecar, owner)
    for number, seconds in enumerate(JUMPS, 1):
        heir = workloads.run(f"owner-{number}", labels=WAITING)
        until_shared(sidecar, heir)
        before = eventually(lambda id=heir: sidecar.projection(id), "it is told")  # type: ignore[misc]
        with watched(sidecar, neighbour, owner, heir) as watcher:
            clock.jump(seconds)
            proxy.cut_streams()
            assert kernel.allowed(owner) == LAST
            watcher.forget(owner)
            workloads.api.act(owner, "kill")
            until_alone(sidecar, heir)
            until_shared(sidecar, neighbour)
        assert (kernel.allowed(heir), kernel.allowed(neighbour)) == (LAST, REST)
        told = eventually(partial(told_alone, sidecar, heir), "it is told that it is alone")
        assert told.generation > before.generation
        if seconds < 0:
            assert told.updated_at < before.updated_at
        owner = heir
    times = [datetime.fromisoformat(line["time"]) for line in sidecar.logged()]
    assert max(times) - min(times) > timedelta(days=3000)
    eventually(lambda: not problems(sidecar), "nothing is wrong")
    given_back(sidecar, workloads, {owner: {}, neighbour: {}})
