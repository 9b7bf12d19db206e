"""Newcomers in a crowd that ask for nothing: nobody looks before they have lasted, and whatever tells more is heard."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.commit.journal import NAME as JOURNAL
from sidecar.commit.journal import read_journal
from sidecar.decide.container.labels import ROWS
from sidecar.decide.facts import ContainerRemoved, ContainerSeen, Mount
from sidecar.decide.settings import OptIn, Rule
from sidecar.observe.brief import BRIEF_SECONDS, MOST_SECONDS
from sidecar.observe.newcomers import BIRTH_SECONDS, FEW
from sidecar.ports import GroupBorn, HandBroken, HandNews
from sidecar.simulation.model_limits import Limits
from tests.daemon.test_daemon import TWO
from tests.daemon.test_daemon_brief import owned, passing, told
from tests.support.daemon.host import Host
from tests.support.hand.kernel_hand import KernelHand

pytestmark = pytest.mark.trio

SOON = 0.3
"""A look and a decision, and more."""

ROUNDS = 0.6
"""How late a look may come that waits: more than one round."""


async def crowded(host: Host) -> None:
    """Bring an owner and then so many newcomers that the next ones wait."""
    await owned(host)
    for number in range(FEW):
        await passing(host, f"first{number}")
    await trio.sleep(SOON)
    host.engine.inspects.clear()


async def test_a_brief_one_costs_nothing(autojump_clock: MockClock, host: Host) -> None:
    """No look, no update, no decision: nothing of it is in the journal."""
    async with host.running():
        await crowded(host)
        ids = {await passing(host, f"brief{number}") for number in range(10)}
        await trio.sleep(10)
        assert host.engine.inspects == []
        assert host.engine.updates == []
    lines = read_journal(host.path / "state" / JOURNAL)
    facts = [fact for line in lines if isinstance(line, tuple) for fact in line]
    heard = {each.view.id for each in facts if isinstance(each, ContainerSeen)}
    heard |= {each.container.id for each in facts if isinstance(each, ContainerRemoved)}
    assert not heard & ids
    assert host.broken == []


async def test_few_are_looked_at_at_once(autojump_clock: MockClock, host: Host) -> None:
    """One that comes alone is shown as soon as ever, also after a crowd."""
    async with host.running():
        await crowded(host)
        await trio.sleep(10)
        alone = await host.docker.create("alone")
        await trio.sleep(SOON)
        assert host.engine.inspects == [alone]


async def test_one_that_lasts_is_looked_at(autojump_clock: MockClock, host: Host) -> None:
    """Some seconds after its start; then it is shown, recorded, and has its files."""
    async with host.running():
        await crowded(host)
        lasting = await host.docker.run("lasting")
        await trio.sleep(BRIEF_SECONDS - SOON)
        assert host.engine.inspects == []
        assert host.where(lasting) == "0,3-7"
        await trio.sleep(SOON + 2 * ROUNDS)
        assert host.engine.inspects == [lasting]
        await trio.sleep(2 * MOST_SECONDS)
        assert host.configured(lasting) == "0,3-7"
        shown, projection = told(host, lasting), host.told(lasting)
        assert shown is not None
        assert projection is not None
        assert (shown.phase, shown.is_settled, str(projection.cpus)) == ("running", True, "0,3-7")
    assert host.broken == []


async def test_one_that_restarts_without_pause_is_looked_at(autojump_clock: MockClock, host: Host) -> None:
    """However often it starts."""
    async with host.running():
        await crowded(host)
        restless = await host.docker.run("restless")
        began = trio.current_time()
        while trio.current_time() - began < MOST_SECONDS + 2 * ROUNDS:
            await host.docker.exit(restless)
            await host.docker.start(restless)
        assert restless in host.engine.inspects


async def test_one_that_is_not_started_is_looked_at(autojump_clock: MockClock, host: Host) -> None:
    """It may be started while there is no daemon."""
    async with host.running():
        await crowded(host)
        created = await host.docker.create("created")
        await trio.sleep(BIRTH_SECONDS + 2 * ROUNDS)
        assert host.engine.inspects == [created]


async def test_one_that_was_removed_unseen_is_in_no_inventory(autojump_clock: MockClock, make_host: Any) -> None:
    """Nor are those that wait: what an inventory has seen must be told to be gone."""
    host: Host = make_host(version=2, reconcile_seconds=0.3)
    host.open_hand = partial(KernelHand, host.kernel)
    async with host.running():
        await crowded(host)
        await trio.sleep(1)
        host.engine.inspects.clear()
        ids = {await passing(host, f"brief{number}", 0.4) for number in range(10)}
        assert len(ids & set(host.engine.inspects)) <= FEW
        await trio.sleep(10)
        assert all(told(host, id) is None for id in ids)
    assert host.broken == []


@pytest.mark.parametrize(
    ("labels", "fields"),
    [
        *(({key: "1"}, {}) for key in ROWS),
        ({"cpuset.exclusiv": "1"}, {}),
        ({"team": "x"}, {"unmanaged": ("team=x",)}),
        ({}, {"unmanaged": ("asks",)}),
        ({}, {"opt_in": OptIn.GUARANTEED}),
        ({}, {"rules": (Rule(labels={"cpuset.exclusive": "2"}, name="as*"),)}),
        ({"com.docker.compose.project": "p"}, {"rules": (Rule(labels={"cpuset.exclusive": "2"}, project="p"),)}),
        ({"com.docker.swarm.task.id": "x"}, {}),
    ],
)
async def test_one_that_may_ask_is_looked_at_at_once(
    autojump_clock: MockClock, make_host: Any, labels: dict[str, str], fields: dict[str, Any]
) -> None:
    """Also in a crowd, by its labels or by the configuration."""
    host: Host = make_host(version=2, reconcile_seconds=1000.0, **fields)
    host.open_hand = partial(KernelHand, host.kernel)
    async with host.running():
        await crowded(host)
        asks = await host.docker.create("asks", labels=labels)
        await trio.sleep(SOON)
        assert set(host.engine.inspects) == {asks}


async def test_one_that_its_runtime_pins_is_looked_at_at_its_birth(autojump_clock: MockClock, host: Host) -> None:
    """As far as it takes nothing from an owner, a pin holds: its CPUs are granted to no other container."""
    async with host.running():
        await crowded(host)
        pinned = await host.docker.create("pinned", Limits(cpuset="1,5"))
        await trio.sleep(SOON)
        assert host.engine.inspects == []
        await host.docker.start(pinned)
        await trio.sleep(SOON)
        assert host.engine.inspects == [pinned]
        assert host.where(pinned) == "5"
        owner = await host.docker.run("second", labels=TWO)
        await host.settled(owner)
        assert (host.where(owner), host.where(pinned)) == ("3-4", "5")
    assert host.broken == []


class Deaf(KernelHand):
    """A hand that hears of no birth: as of one below a parent that it does not watch."""

    async def news(self) -> Sequence[HandNews]:
        return [each for each in await super().news() if not isinstance(each, GroupBorn)]


async def test_one_that_starts_without_a_birth_is_looked_at_at_once(autojump_clock: MockClock, host: Host) -> None:
    """It may be born where the hand does not watch."""
    host.open_hand = partial(Deaf, host.kernel)
    async with host.running():
        await crowded(host)
        elsewhere = await host.docker.create("elsewhere")
        await trio.sleep(SOON)
        assert host.engine.inspects == []
        await host.docker.start(elsewhere)
        await trio.sleep(SOON)
        assert host.engine.inspects == [elsewhere]


@pytest.mark.parametrize("action", ["pause", "rename", "update"])
async def test_any_other_news_of_it_ends_the_wait(autojump_clock: MockClock, host: Host, action: str) -> None:
    async with host.running():
        await crowded(host)
        busy = await host.docker.run("busy")
        match action:
            case "pause":
                await host.docker.pause(busy)
            case "rename":
                await host.docker.rename(busy, "other")
            case _:
                await host.docker.change(busy, Limits(cpuset="0-7"))
        await trio.sleep(SOON)
        assert busy in host.engine.inspects
        assert host.where(busy) == "0,3-7"


async def test_all_are_looked_at_when_the_hand_is_lost(autojump_clock: MockClock, host: Host) -> None:
    """Nothing answers their births until another is opened."""
    host.may_crash = True
    hands = host.open_hands()
    async with host.running():
        await crowded(host)
        waiting = [await host.docker.run(f"waiting{number}") for number in range(3)]
        assert host.engine.inspects == []
        hands[-1]._hand.send.send_nowait(HandBroken("the test demands it"))
        await trio.sleep(SOON)
        assert set(host.engine.inspects) >= set(waiting)


async def test_owners_are_alone_in_a_crowd_that_nobody_has_looked_at(autojump_clock: MockClock, host: Host) -> None:
    """The witness sees each change of the kernel: no newcomer is on the CPUs of a settled owner."""
    async with host.running():
        await crowded(host)
        unknown = [await host.docker.run(f"unknown{number}") for number in range(4)]
        second = await host.docker.run("second", labels=TWO)
        await host.settled(second)
        assert not set(host.engine.inspects) & set(unknown)
        assert {host.where(each) for each in unknown} == {"0,5-7"}
        unknown.append(await host.docker.run("later"))
        assert host.where(unknown[-1]) == "0,5-7"
        await host.docker.exit(second)
        await host.docker.remove(second)
        await trio.sleep(30)
        assert {host.where(each) for each in unknown} == {"0,3-7"}
    assert host.broken == []


async def test_a_mount_of_files_is_found_once_it_has_lasted(autojump_clock: MockClock, host: Host) -> None:
    """An event tells no mounts: in a crowd its directory comes some seconds after its start."""
    async with host.running():
        await crowded(host)
        reader = await host.docker.create("reader", mounts=(Mount(source=f"{host.path}/cpus/by-name/reader"),))
        await host.docker.start(reader)
        await trio.sleep(MOST_SECONDS + 1)
        assert (host.path / "cpus" / "by-name" / "reader" / "cpuset").read_text() == "0,3-7\n"
