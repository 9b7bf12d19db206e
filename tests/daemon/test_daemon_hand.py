"""The whole daemon with a hand on the simulated kernel: births are answered, and the kernel comes first."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.status.status_file import read_status
from sidecar.words.hands import SWITCHED_OFF, no_hand
from tests.daemon.test_daemon import TWO
from tests.support.daemon.host import Host
from tests.support.hand.kernel_hand import KernelHand

pytestmark = pytest.mark.trio


async def test_a_newcomer_is_born_outside_exclusive_cpus(autojump_clock: MockClock, host: Host) -> None:
    """At its first instruction, before any event told of it."""
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        await trio.sleep(1)
        new = await host.docker.create("new")
        await host.docker.start(new)
        assert host.where(new) == "0,3-7"
    assert host.broken == []


async def test_the_kernel_is_right_before_the_engine_knows(autojump_clock: MockClock, host: Host) -> None:
    """And the engine's record follows, so that both agree in the end."""
    plain = [await host.docker.run(f"plain{n}") for n in range(6)]
    async with host.running():
        await trio.sleep(1)
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        assert {host.where(each) for each in plain} == {"0,3-7"}
        await host.until(lambda: {host.configured(each) for each in plain} == {"0,3-7"})
        await host.until(lambda: host.configured(rt) == "1-2")
    assert host.broken == []


async def test_a_tenant_is_overwritten(autojump_clock: MockClock, host: Host) -> None:
    """An update onto an owner's CPU is in force for no instant that is seen."""
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        plain = await host.docker.run("plain")
        await host.settled(rt)
        await trio.sleep(1)
        host.docker.kernel.write(plain, host.docker.kernel.online())
        assert host.where(plain) == "0,3-7"
        assert host.is_settled(rt)
    assert host.broken == []


async def test_without_the_daemon_everything_stays(autojump_clock: MockClock, host: Host) -> None:
    """A daemon that ends leaves containers where they are, and the next one goes on from there."""
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        plain = await host.docker.run("plain")
        await host.settled(rt)
    assert (host.where(rt), host.where(plain)) == ("1-2", "0,3-7")
    async with host.running():
        await host.settled(rt)
        assert host.where(plain) == "0,3-7"
    assert host.broken == []


async def test_a_hand_that_is_switched_off_is_not_opened(autojump_clock: MockClock, make_host: Any) -> None:
    """The engine alone changes CPUs, and the status says why."""
    host: Host = make_host(version=2, reconcile_seconds=1000.0, hand="off")
    host.open_hand = partial(KernelHand, host.docker.kernel)
    async with host.running():
        rt = await host.docker.run("rt", labels=TWO)
        await host.settled(rt)
        await trio.sleep(1)
        told = read_status(host.path / "state").hand
    assert told is not None
    assert (told.is_answering, told.text) == (False, no_hand(SWITCHED_OFF))
