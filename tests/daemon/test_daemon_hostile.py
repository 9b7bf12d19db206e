"""A hostile tenant beside honest owners, at random: the whole daemon on the simulated engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from state.cpuset import EMPTY
from state.topology import uniform
from tests.support.attacks import UNMANAGED, Attack
from tests.support.daemon.host import Host
from tests.support.daemon.tenant import HostileTenant
from tests.support.hand.kernel_hand import KernelHand
from tests.support.soaking import IS_SOAK, MORE_SEEDS

pytestmark = pytest.mark.trio

_MORE = MORE_SEEDS if IS_SOAK else MORE_SEEDS[:2]

ATTACKS = [each for each in Attack if each is not Attack.NEST]
"""The modelled kernel has no groups inside those of containers."""

LONGEST_SECONDS = 0.5
"""Of time on an owner's CPU without a hand: a start that holds the lock, a look and an order, when several wait."""


class Disturbed:
    """How long others might run on an owner's CPUs, each time: at every change of the kernel's cpusets."""

    def __init__(self, host: Host, owner: str) -> None:
        self._host = host
        self._owner = owner
        self._since: float | None = None
        self.seconds: list[float] = []
        host.kernel.seen.append(self._see)

    def _see(self) -> None:
        kernel = self._host.kernel
        mine = kernel.effective(self._owner) or EMPTY
        others = [kernel.effective(each) or EMPTY for each in self._host.live() if each != self._owner]
        is_free = all(mine.isdisjoint(each) for each in others)
        if self._since is None and not is_free:
            self._since = trio.current_time()
        elif self._since is not None and is_free:
            self.seconds.append(trio.current_time() - self._since)
            self._since = None


async def arrivals(host: Host, names: Sequence[str]) -> float:
    """Run these one after the other, each with a CPU of its own. Return the longest time until one was settled."""
    longest = 0.0
    for name in names:
        began = trio.current_time()
        one = await host.docker.run(name, labels={"cpuset.exclusive": "1"})
        await host.settled(one)
        longest = max(longest, trio.current_time() - began)
        await host.docker.stop(one)
        await host.docker.remove(one)
    return longest


async def disturbed(host: Host, seed: int, attacks: Sequence[Attack]) -> tuple[float, float, list[float]]:
    """Return the longest time until an honest arrival is settled: alone, and beside the tenant; and how long others
    might run on an owner's CPUs meanwhile, each time.
    """
    async with host.running():
        owner = await host.docker.run("owner", labels={"cpuset.exclusive": "2", "cpuset.projection": "voice"})
        await host.settled(owner)
        alone = await arrivals(host, [f"before-{number}" for number in range(3)])
        tenant, seen = HostileTenant(host, Random(seed), ["voice", owner], attacks), Disturbed(host, owner)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tenant.run)
            await trio.sleep(2)
            beside = await arrivals(host, [f"beside-{number}" for number in range(6)])
            nursery.cancel_scope.cancel()
        assert set(tenant.acts) == set(attacks)
        await tenant.leave()
        await host.settled(owner)
        assert host.told(owner).alone  # type: ignore[union-attr]
    assert host.broken == []
    return alone, beside, seen.seconds


@pytest.mark.parametrize("seed", [3, *(pytest.param(each, marks=pytest.mark.slow) for each in _MORE)])
async def test_with_a_hand_a_hostile_tenant_delays_no_arrival_and_disturbs_no_owner(
    autojump_clock: MockClock, make_host: Any, seed: int
) -> None:
    """An arrival is settled in at most twice its undisturbed time, and no other is ever allowed on an owner's CPU."""
    host: Host = make_host(machine=uniform(cores=16), version=2, seed=seed, unmanaged=(UNMANAGED,))
    host.open_hand = partial(KernelHand, host.kernel)
    alone, beside, seconds = await disturbed(host, seed, ATTACKS)
    assert beside <= 2 * alone
    assert seconds == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, *_MORE])
async def test_without_a_hand_each_disturbance_is_short(autojump_clock: MockClock, make_host: Any, seed: int) -> None:
    """However often the tenant repeats it. What it locks only a hand can move, so it locks nothing here."""
    host: Host = make_host(machine=uniform(cores=16), version=2, seed=seed, unmanaged=(UNMANAGED,))
    attacks = [each for each in ATTACKS if each is not Attack.LOCK]
    _, beside, seconds = await disturbed(host, seed, attacks)
    assert beside <= LONGEST_SECONDS
    assert 0 < max(seconds) <= LONGEST_SECONDS
