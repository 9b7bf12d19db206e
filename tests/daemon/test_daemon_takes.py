"""Takes by the whole daemon, on the simulated engine, in virtual time: announced, waited for, acknowledged or not."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.settings import PolicyName
from state import ack
from state.cpuset import EMPTY, CPUSet
from state.projection import Projection
from tests.support.daemon.host import Host
from tests.support.hand.kernel_hand import KernelHand

ELASTIC = {"cpuset.exclusive": "2", "cpuset.max": "7", "cpuset.grace": "4s", "cpuset.signal": "HUP"}
THREE = {"cpuset.exclusive": "3"}

pytestmark = pytest.mark.trio


class Taken(Host):
    """A host with an elastic container on all spare CPUs, and a newcomer for which it must give up three."""

    batch = ""
    rt = ""
    said: tuple[Projection, ...] = ()
    """All that the elastic container was told, in order."""

    def see(self) -> None:
        """Note what it is told, too."""
        super().see()
        told = self.told(self.batch) if self.batch else None
        if told is not None and told not in self.said[-1:]:
            self.said += (told,)

    async def grow(self) -> None:
        """Run the elastic container alone until it has grown."""
        self.batch = await self.docker.create("batch", labels=ELASTIC, stop_signal="TERM")
        await self.docker.start(self.batch)
        await self.until(lambda: self.where(self.batch) == "1-7" and self.is_settled(self.batch))

    async def take(self) -> Projection:
        """Let the newcomer arrive; return the elastic container's first announcement."""
        self.rt = await self.docker.run("rt", labels=THREE)
        await self.until(lambda: self.leaving())
        told = self.told(self.batch)
        assert told is not None
        return told

    def leaving(self) -> CPUSet:
        told = self.told(self.batch)
        return told.leaving if told else CPUSet()

    @property
    def directory(self) -> Path:
        return self.path / "cpus" / "by-id" / self.batch[:12]

    @property
    def signals(self) -> list[str]:
        return self.docker.container(self.batch).signals

    def is_over(self) -> bool:
        """Return whether the newcomer has what it asked for, and no CPU leaves any more."""
        return len(self.docker.effective(self.rt) or ()) == 3 and self.is_settled(self.rt) and not self.leaving()


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taken:
    config: dict[str, Any] = {"policy": PolicyName.DYNAMIC, "cooldown_seconds": 0.0}
    return Taken(tmp_path, monkeypatch, **config)


async def test_cpus_leave_when_the_grace_is_over(autojump_clock: MockClock, host: Taken) -> None:
    """Announced first, signalled next, untouched for the whole grace, and then taken; and counted as forced."""
    async with host.running():
        await host.grow()
        before = len(host.signals)
        told = await host.take()
        began = trio.current_time()
        assert (told.cpus, told.leaving) == (CPUSet.parse("1-7"), CPUSet.parse("1-7") - told.desired)
        assert told.deadline_seconds == pytest.approx(4, abs=0.01)
        await host.until(lambda: len(host.signals) > before, seconds=0.1)
        await host.until(host.is_over)
        assert 3.9 < trio.current_time() - began < 4.2
        assert len(host.signals) == before + 2
        assert (host.told(host.batch) or told).deadline_seconds is None
        assert host.books().forced == 1
    assert host.broken == []


async def test_cpus_leave_as_soon_as_the_workload_says_so(autojump_clock: MockClock, host: Taken) -> None:
    async with host.running():
        await host.grow()
        told = await host.take()
        began = trio.current_time()
        await trio.sleep(1)
        assert host.where(host.batch) == "1-7"
        ack.write(host.directory, told.generation)
        await host.until(host.is_over)
        assert trio.current_time() - began < 1.3
        assert (host.books().forced, host.books().acknowledged) == (0, 1)
    assert host.broken == []


async def test_a_rewriting_in_the_middle_says_what_is_left(autojump_clock: MockClock, host: Taken) -> None:
    """A newcomer that shares, or an old acknowledgement, does not change the time."""
    async with host.running():
        await host.grow()
        told = await host.take()
        await trio.sleep(1)
        # Settled, since the newcomer does not run there any more.
        told = host.told(host.batch) or told
        await host.docker.rename(host.batch, "renamed")
        await host.until(lambda: (host.told(host.batch) or told).name == "renamed")
        later = host.told(host.batch)
        assert later is not None
        assert later.deadline_seconds == pytest.approx(3, abs=0.05)
        assert (later.leaving, later.generation) == (told.leaving, told.generation + 1)
        ack.write(host.directory, told.generation)
        await host.until(host.is_over, seconds=0.5)


@pytest.mark.parametrize("when", ["before", "while nobody runs", "after", "never"])
async def test_a_restart_begins_the_grace_again_and_keeps_acknowledgements(
    autojump_clock: MockClock, host: Taken, when: str
) -> None:
    """The promise is a minimum, announced again with a new generation; an acknowledgement stays valid."""
    async with host.running() as stop:
        await host.grow()
        told = await host.take()
        await trio.sleep(3)
        stop.set()
        if when == "before":
            ack.write(host.directory, told.generation)
    if when == "while nobody runs":
        ack.write(host.directory, told.generation)
    assert host.where(host.batch) == "1-7"
    async with host.running():
        began = trio.current_time()
        if when in ("after", "never"):
            again = host.told(host.batch)
            assert again is not None
            assert again.generation > told.generation
            assert again.leaving == told.leaving
            assert again.deadline_seconds == pytest.approx(4, abs=0.01)
        if when == "after":
            ack.write(host.directory, told.generation)
        await host.until(host.is_over)
        took = trio.current_time() - began
        assert 3.9 < took < 4.2 if when == "never" else took < 0.6
        assert host.books().forced == (1 if when == "never" else 0)
    assert host.broken == []


@pytest.mark.parametrize("dies", [False, True], ids=["is stopped", "is killed"])
@pytest.mark.parametrize("has_hand", [False, True], ids=["no hand", "a hand"])
async def test_no_restart_takes_a_notice_back(
    autojump_clock: MockClock, host: Taken, has_hand: bool, dies: bool
) -> None:
    """From the first announcement until they are gone, each file has the CPUs that leave as its own, and as leaving."""
    if has_hand:
        host.open_hand = partial(KernelHand, host.kernel)
    stop, life = trio.Event(), trio.CancelScope()

    async def live() -> None:
        with life:
            await host.serve(stop)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(live)
        await host.grow()
        told = await host.take()
        await trio.sleep(1)
        if dies:
            life.cancel()
        else:
            stop.set()
    await trio.sleep(3)
    async with host.running():
        began = trio.current_time()
        await host.until(host.is_over)
        assert 3.9 < trio.current_time() - began < 4.2
    said = [each for each in host.said if each.generation >= told.generation]
    first_without = next(place for place, each in enumerate(said) if each.leaving != told.leaving)
    assert said[first_without].cpus == told.cpus - told.leaving
    assert all(each.leaving == EMPTY for each in said[first_without:])
    assert said[first_without - 1].generation > told.generation
    assert host.broken == []


async def test_a_take_that_cannot_be_told_is_bounded_all_the_same(autojump_clock: MockClock, host: Taken) -> None:
    """Another file is in the place of the directories: it is reported, and the grace runs out."""
    async with host.running():
        await host.grow()
        root = host.path / "cpus"
        shutil.rmtree(root)
        root.write_text("in the way")
        host.rt = await host.docker.run("rt", labels=THREE)
        began = trio.current_time()
        await host.until(lambda: len(host.docker.effective(host.batch) or ()) == 4)
        assert 3.9 < trio.current_time() - began < 4.5
        assert "a workload gets no notice of CPUs that are taken from it container=batch" in host.lines.getvalue()
        root.unlink()
        await host.until(host.is_over)


async def test_a_workload_that_is_gone_in_the_middle_holds_up_no_other(autojump_clock: MockClock, host: Taken) -> None:
    async with host.running():
        await host.grow()
        await host.take()
        await host.docker.remove(host.batch)
        await host.until(lambda: host.is_settled(host.rt), seconds=0.5)
        assert not host.directory.exists()
    assert host.broken == []
