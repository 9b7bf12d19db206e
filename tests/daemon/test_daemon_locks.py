"""The whole daemon among containers whose locks others hold, by slow copies for instance."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from state.topology import uniform
from tests.support.daemon.host import Host
from tests.support.hand.kernel_hand import KernelHand

pytestmark = pytest.mark.trio


ONE = {"cpuset.exclusive": "1"}


async def locked(host: Host, count: int) -> list[str]:
    """Run containers, let the daemon know them, and hold their locks."""
    made = [await host.docker.run(f"held{number}") for number in range(count)]
    await trio.sleep(5)
    for one in made:
        await host.docker.container(one).lock.acquire()
    return made


def release(host: Host, held: Iterable[str]) -> None:
    """Release the locks of these containers."""
    for each in held:
        host.docker.container(each).lock.release()


def is_alone(host: Host, container: str) -> bool:
    """Return whether it is told to be alone."""
    told = host.told(container)
    return told is not None and told.alone


async def arrival(host: Host, name: str, seconds: float) -> tuple[str, float]:
    """Run an exclusive container. Return it, and how long it took until its CPUs were its own but for locked ones."""
    began = trio.current_time()
    one = await host.docker.run(name, labels=ONE)
    held = {id for id in host.live() if host.docker.container(id).lock.locked()}

    def is_there() -> bool:
        mine = host.docker.effective(one)
        others = [host.docker.effective(id) for id in host.live() if id != one and id not in held]
        return mine is not None and len(mine) == 1 and all(each is None or each.isdisjoint(mine) for each in others)

    await host.until(is_there, seconds=seconds)
    return one, trio.current_time() - began


@pytest.mark.parametrize("count", [0, 30])
async def test_an_arrival_is_placed_however_many_locks_are_held(
    autojump_clock: MockClock, make_host: Any, count: int
) -> None:
    """What can be moved leaves its CPU in time. With the others there it is not told that it is settled."""
    host: Host = make_host(machine=uniform(cores=16))
    async with host.running():
        plain = [await host.docker.run(f"plain{number}") for number in range(10)]
        held = await locked(host, count)
        try:
            one, first = await arrival(host, "one", 60)
            await trio.sleep(0.5)
            assert host.is_settled(one) is (count == 0)
            two, second = await arrival(host, "two", 60)
            assert (first < 5, second < 0.3) == (True, True)
        finally:
            release(host, held)
        await host.settled(one, two)
    assert host.broken == []
    assert plain


@pytest.mark.parametrize("count", [0, 30])
async def test_with_a_hand_an_arrival_is_settled_however_many_locks_are_held(
    autojump_clock: MockClock, make_host: Any, count: int
) -> None:
    """The kernel moves what the engine cannot."""
    host: Host = make_host(machine=uniform(cores=16), version=2)
    host.open_hand = partial(KernelHand, host.docker.kernel)
    async with host.running():
        held = await locked(host, count)
        for name in ("one", "two"):
            began = trio.current_time()
            await host.settled(await host.docker.run(name, labels=ONE))
            assert trio.current_time() - began < 0.6
        release(host, held)
    assert host.broken == []


async def _created(host: Host, name: str) -> str:
    return await host.docker.create(name)


async def _run_plain(host: Host, name: str) -> str:
    return await host.docker.run(name)


async def _run_refused(host: Host, name: str) -> str:
    """Run one that asks for more than there is."""
    return await host.docker.run(name, labels={"cpuset.exclusive": "99"})


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("made_by", [_run_plain, _run_refused, _created])
async def test_locks_that_are_taken_before_the_first_look_delay_no_arrival(
    autojump_clock: MockClock, make_host: Any, made_by: Callable[[Host, str], Awaitable[str]], version: int
) -> None:
    """Of many that start at once, the first looks come seconds later, and are not answered any more: the hand knows
    where they are all the same.
    """
    host: Host = make_host(machine=uniform(cores=16), version=version)
    host.open_hand = partial(KernelHand, host.docker.kernel)
    async with host.running():
        first = await host.docker.run("first", labels=ONE)
        await host.settled(first)
        held: list[str] = []

        async def make(number: int) -> None:
            held.append(await made_by(host, f"held{number}"))

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(make, number)
        for each in held:
            await host.docker.container(each).lock.acquire()
        try:
            await trio.sleep(10)
            for name in ("one", "two"):
                began = trio.current_time()
                await host.settled(await host.docker.run(name, labels=ONE))
                assert trio.current_time() - began < 0.6
            # One that rests may name a parent that no hand watches, which only a look shows.
            assert is_alone(host, first) is (made_by is not _created)
        finally:
            release(host, held)
        await trio.sleep(30)
        assert is_alone(host, first)
    assert host.broken == []


async def test_after_a_restart_nobody_is_less_alone_for_locks_on_what_the_books_know(
    autojump_clock: MockClock, make_host: Any
) -> None:
    """The books have the cgroup parent that each container names: a glance at one that rests is enough."""
    host: Host = make_host(machine=uniform(cores=16), version=2)
    host.open_hand = partial(KernelHand, host.docker.kernel)
    async with host.running():
        owner = await host.docker.run("owner", labels=ONE)
        await host.settled(owner)
        held = [await _created(host, f"held{number}") for number in range(10)]
        await trio.sleep(30)
        assert is_alone(host, owner)
    for each in held:
        await host.docker.container(each).lock.acquire()
    async with host.running():
        await trio.sleep(10)
        late = await _created(host, "late")
        assert is_alone(host, owner)
        # Nothing has looked at this one before its lock was taken.
        await host.docker.container(late).lock.acquire()
        await host.until(lambda: not is_alone(host, owner))
        assert host.is_settled(owner)
        release(host, [*held, late])
        await host.until(lambda: is_alone(host, owner))
    assert host.broken == []
