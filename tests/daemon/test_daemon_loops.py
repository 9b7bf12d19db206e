"""The whole daemon while tenants update their own containers to an owner's CPUs, again and again."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.simulation.model_limits import Limits
from sidecar.status.status_file import read_status
from state.cpuset import CPUSet
from tests.support.daemon.host import Host
from tests.support.hand.kernel_hand import KernelHand

pytestmark = pytest.mark.trio


ONE = {"cpuset.exclusive": "1"}


async def update_again_and_again(host: Host, id: str) -> None:
    """Update a container to all CPUs, as fast as an engine does it."""
    while True:
        await host.docker.change(id, Limits(cpuset="0-7"))
        await trio.sleep(0.014)


@pytest.mark.parametrize("has_hand", [False, True])
@pytest.mark.parametrize("loops", [1, 2])
async def test_a_repeat_offender_is_named_and_delays_no_other(
    autojump_clock: MockClock, make_host: Any, loops: int, has_hand: bool
) -> None:
    """A third container leaves the owner's CPU as soon as ever. With a hand the offender is never there."""
    host: Host = make_host(version=2)
    if has_hand:
        host.open_hand = partial(KernelHand, host.docker.kernel)
    async with host.running():
        owner = await host.docker.run("owner", labels=ONE)
        evil = [await host.docker.run(f"evil{number}") for number in range(loops)]
        await host.settled(owner)
        await trio.sleep(1)
        owned = CPUSet.parse(host.where(owner))
        async with trio.open_nursery() as nursery:
            for one in evil:
                nursery.start_soon(update_again_and_again, host, one)
            await trio.sleep(1)
            began, third = trio.current_time(), await host.docker.run("third")
            await host.until(lambda: owned.isdisjoint(host.docker.effective(third) or owned), seconds=5)
            assert trio.current_time() - began < 0.5
            seen = 0
            for _ in range(50):
                await trio.sleep(0.0101)
                seen += any(not owned.isdisjoint(host.docker.effective(one) or owned) for one in evil)
            assert not has_hand or seen == 0
            problems = read_status(host.path / "state").problems
            # The modelled hand does not report what it overwrites.
            assert has_hand or all(any(f"evil{number}" in each for each in problems) for number in range(loops))
            assert not any("third" in each for each in problems)
            nursery.cancel_scope.cancel()
        began = trio.current_time()
        await host.settled(owner)
        assert trio.current_time() - began < 35
        await trio.sleep(90)
        assert read_status(host.path / "state").problems == ()
    assert host.broken == []
