"""The whole daemon while nothing happens: how often it is woken, in virtual time, and by which task.

A wake-up is an instant at which any task runs: those of one instant are one wake-up of a real daemon. Whatever polls
more often than the others is found here, and named.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from sidecar import daemon
from sidecar.beat import beat, next_beat
from sidecar.commit.fallback_books import SparedCheckpoint
from sidecar.projection.teller import SILENT_SECONDS
from sidecar.status.status_file import read_status
from tests.support.daemon.host import Host
from tests.support.engine.told_cpus import ToldCpus
from tests.support.hand.kernel_hand import KernelHand
from tests.support.keys import docker

MINUTES = 10

CONTAINERS = 10

MOST_A_MINUTE = 33
"""Beats of five seconds: 12. The rest are the engine's answers: to a ping each 5 s, to the list and looks each 10 s."""

MOST_A_MINUTE_DEAF = 80
"""Where the kernel tells nothing of CPUs, these are looked at each second: 48 more."""


class WakeUps(trio.abc.Instrument):
    """Counts instants at which tasks run, and names the task that ran first at each."""

    def __init__(self) -> None:
        self.tasks: Counter[str] = Counter()
        self._last = -1.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count the first task of an instant."""
        if task.name.startswith("tests.") or "test_" in task.name:
            return
        if (now := trio.current_time()) != self._last:
            self._last = now
            self.tasks[task.name] += 1

    @property
    def total(self) -> int:
        """How many there were."""
        return sum(self.tasks.values())


async def woken(host: Host, minutes: float = MINUTES) -> WakeUps:
    """Run the daemon beside ten containers; return its wake-ups in these minutes, after one in which it settles."""
    wake_ups = WakeUps()
    for number in range(CONTAINERS):
        await host.docker.run(f"idle{number}", labels={"cpuset.exclusive": "1"} if number == 0 else {})
    async with host.running():
        await trio.sleep(60.5)
        trio.lowlevel.add_instrument(wake_ups)
        await trio.sleep(60 * minutes)
        trio.lowlevel.remove_instrument(wake_ups)
    return wake_ups


@pytest.fixture
def idle(make_host: Any) -> Iterator[Host]:
    """Return a host with a hand, whose kernel tells of CPUs."""
    host: Host = make_host(version=2)
    host.open_hand = partial(KernelHand, host.kernel)
    with closing(ToldCpus()) as host.kernel.hears_cpus:
        yield host


@pytest.mark.trio
async def test_an_idle_daemon_is_woken_seldom(autojump_clock: MockClock, idle: Host) -> None:
    """With everything on that is on by default."""
    found = await woken(idle)
    assert found.total <= MOST_A_MINUTE * MINUTES, found.tasks.most_common()


@pytest.mark.trio
async def test_where_the_kernel_tells_nothing_it_looks_each_second(autojump_clock: MockClock, idle: Host) -> None:
    """Below a rootless engine, and under remapped users."""
    idle.kernel.hears_cpus = None
    found = await woken(idle)
    assert MOST_A_MINUTE * MINUTES < found.total <= MOST_A_MINUTE_DEAF * MINUTES, found.tasks.most_common()


@pytest.mark.trio
async def test_a_task_that_polls_is_found(
    autojump_clock: MockClock, idle: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause of five seconds beside the beat is twelve wake-ups a minute."""

    async def poll(*_: object) -> None:
        while True:  # noqa: ASYNC110 - the fault
            await trio.sleep(4.99)

    monkeypatch.setattr(daemon, "watch_fronts", poll)
    found = await woken(idle)
    assert found.total > MOST_A_MINUTE * MINUTES


@pytest.mark.trio
async def test_what_has_the_same_period_wakes_it_once(autojump_clock: MockClock) -> None:
    """However late each begins; and none waits for longer than its period."""
    woken_at: Counter[float] = Counter()

    async def keep(begins_at: float, period: float) -> None:
        await trio.sleep(begins_at)
        before = trio.current_time()
        for _ in range(5):
            await beat(period)
            assert 0 < trio.current_time() - before <= period
            before = trio.current_time()
            woken_at[before] += 1

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(keep, 0.3 * number, 5.0)
            nursery.start_soon(keep, 0.3 * number, 10.0)
    assert woken_at == {5.0: 8, 10.0: 16, 15.0: 8, 20.0: 16, 25.0: 8, 30.0: 8, 40.0: 8, 50.0: 8}


@given(now=st.floats(0, 1e9), period=st.floats(0.05, 3600))
def test_the_next_beat_is_within_a_period(now: float, period: float) -> None:
    """And later than now, however these were rounded."""
    due = next_beat(now, period)
    assert now < due <= now + period * (1 + 1e-6) + 1e-6


@pytest.mark.trio
async def test_nothing_is_written_while_nothing_happens(autojump_clock: MockClock, idle: Host) -> None:
    """No journal, no document, no projection: an inventory without news is none for them. Only leases go on."""
    await idle.docker.run("owner", labels={"cpuset.exclusive": "1"})

    def written() -> dict[str, int]:
        found = [each for each in idle.path.rglob("*") if each.is_file() and "lease" not in each.name]
        return {str(each): each.stat().st_mtime_ns for each in found}

    async with idle.running():
        await trio.sleep(60.5)
        before, looks = written(), len(idle.engine.inspects)
        await trio.sleep(600)
        assert written() == before
        assert len(idle.engine.inspects) - looks >= 60


@pytest.mark.trio
async def test_what_people_remove_comes_back_though_nothing_happens(autojump_clock: MockClock, idle: Host) -> None:
    """The files of a container, its whole directory, and the status."""
    id = await idle.docker.run("owner", labels={"cpuset.exclusive": "1"})
    own = idle.path / "cpus" / "by-id" / id[:12]
    async with idle.running():
        await trio.sleep(60.5)
        for remove in (
            partial(shutil.rmtree, own),
            (own / "cpuset").unlink,
            (idle.path / "state" / "status.json").unlink,
            partial((own / "cpuset").write_text, "0-7\n"),
        ):
            before = (own / "cpuset").read_text()
            remove()
            await trio.sleep(SILENT_SECONDS + 0.1)
            assert (own / "cpuset").read_text() == before
            assert read_status(idle.path / "state").is_ready
            await trio.sleep(30)


@pytest.mark.trio
async def test_a_state_that_was_not_saved_is_saved_though_nothing_happens(
    autojump_clock: MockClock, idle: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inventory without news is told while there is a problem: a decision saves again."""
    async with idle.running():
        await trio.sleep(60.5)
        with monkeypatch.context() as broken:
            broken.setattr(SparedCheckpoint, "save", lambda *_: "the disk is full")
            id = await idle.docker.run("owner", labels={"cpuset.exclusive": "1"})
            await trio.sleep(60)
            assert docker(id) not in idle.books().assignments
        await idle.until(lambda: docker(id) in idle.books().assignments, seconds=10.1)
