"""Containers that have never run are not asked of the engine one by one, and nothing about them goes unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.facts import ContainerView
from sidecar.observe.unstarted import LOOK_SECONDS
from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet
from tests.support.daemon.host import Host

pytestmark = pytest.mark.trio

ONE = {"cpuset.exclusive": "1"}

CROWD = 50


@pytest.fixture
def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a host without a hand."""
    return Host(tmp_path, monkeypatch, version=2)


async def crowd(host: Host) -> list[str]:
    """Create many, and start none; one that runs is beside them."""
    await host.docker.run("runs")
    return [await host.docker.create(f"created{number}") for number in range(CROWD)]


async def test_what_has_never_run_is_looked_at_seldom(autojump_clock: MockClock, crowded: Host) -> None:
    """Once in five minutes; what runs is looked at in each period."""
    async with crowded.running():
        created = await crowd(crowded)
        await trio.sleep(60.5)
        before = len(crowded.engine.inspects)
        await trio.sleep(LOOK_SECONDS)
        asked = crowded.engine.inspects[before:]
        assert all(asked.count(each) <= 1 for each in created)
        assert len(asked) - sum(asked.count(each) for each in created) >= 30


async def test_its_start_is_seen_without_an_event(autojump_clock: MockClock, crowded: Host) -> None:
    """The list says so, within a period."""
    async with crowded.running():
        owner = await crowded.docker.run("owner", labels=ONE)
        await crowded.settled(owner)
        created = await crowd(crowded)
        await trio.sleep(60.5)
        crowded.docker.event_faults.lose_next = 10
        await crowded.docker.start(created[0])
        await trio.sleep(10.5)
        assert CPUSet.parse(crowded.where(owner)).isdisjoint(CPUSet.parse(crowded.where(created[0])))


async def test_an_update_of_which_no_event_tells_is_undone(autojump_clock: MockClock, crowded: Host) -> None:
    """Within five minutes; at once if news is known to be lost."""
    async with crowded.running():
        owner = await crowded.docker.run("owner", labels=ONE)
        await crowded.settled(owner)
        created = await crowd(crowded)
        await trio.sleep(60.5)
        before = crowded.configured(created[0])
        crowded.docker.event_faults.lose_next = 1
        await crowded.docker.change(created[0], Limits(cpuset=crowded.where(owner)))
        await crowded.until(lambda: crowded.configured(created[0]) == before, seconds=LOOK_SECONDS + 10.5)


@pytest.mark.parametrize("has_hand", [False, True])
async def test_the_kernel_is_asked_where_no_hand_hears_births(
    autojump_clock: MockClock, crowded: Host, monkeypatch: pytest.MonkeyPatch, has_hand: bool
) -> None:
    """In each period; about what runs in any case."""
    asked: list[str] = []
    effective = crowded.kernel.effective_cpus

    def noted(view: ContainerView) -> CPUSet | None:
        asked.append(view.id)
        return effective(view)

    if has_hand:
        crowded.open_hands()
    async with crowded.running():
        created = await crowd(crowded)
        await trio.sleep(60.5)
        monkeypatch.setattr(crowded.kernel, "effective_cpus", noted)
        await trio.sleep(60)
    runs = set(asked) - set(created)
    assert all(asked.count(each) >= 6 for each in runs)
    assert len(runs) == 1
    if has_hand:
        assert len(asked) <= 15 + CROWD
    else:
        assert all(asked.count(each) >= 6 for each in created)
