"""An engine whose containers start without its service: while that is away, silence proves nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sidecar.engines.traits_table import traits_of
from sidecar.words.neighbours import UNSEEN
from state.projection import Projection
from tests.support.daemon.host import Host
from tests.support.hand.kernel_hand import KernelHand

pytestmark = pytest.mark.trio

ONE = {"cpuset.exclusive": "1"}


def told(host: Host, container: str) -> Projection:
    found = host.told(container)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("engine", "has_hand", "is_alone"), [("podman", False, False), ("podman", True, True), ("docker", False, True)]
)
async def test_alone_ends_with_the_service_where_containers_start_without_it(
    autojump_clock: MockClock, make_host: Any, engine: str, *, has_hand: bool, is_alone: bool
) -> None:
    """Within a second; it is alone again once all was looked at. What shares goes on as before."""
    host: Host = make_host(version=2)
    host.engine.traits = traits_of(engine, "5.4.2")
    if has_hand:
        host.open_hand = partial(KernelHand, host.kernel)
    async with host.running():
        owner, other = await host.docker.run("owner", labels=ONE), await host.docker.run("other")
        await host.until(lambda: host.told(other) and told(host, owner).alone)
        host.engine.is_silent = True
        host.docker.break_connections()
        await trio.sleep(1)
        assert (told(host, owner).settled, told(host, owner).alone) == (is_alone, is_alone)
        assert (UNSEEN in told(host, owner).reason) is not is_alone
        assert told(host, other).settled
        host.engine.is_silent = False
        await host.until(lambda: told(host, owner).alone, seconds=15)
        assert UNSEEN not in told(host, owner).reason
    assert host.broken == []


async def test_the_way_back_to_such_an_engine_is_tried_each_second(autojump_clock: MockClock, make_host: Any) -> None:
    """However long it was away: each second counts while its containers start unseen."""
    host: Host = make_host(version=2)
    host.engine.traits = traits_of("podman", "5.4.2")
    async with host.running():
        owner = await host.docker.run("owner", labels=ONE)
        await host.until(lambda: host.told(owner) and told(host, owner).alone)
        host.engine.is_silent = True
        host.docker.break_connections()
        await trio.sleep(100)
        host.engine.is_silent = False
        began = trio.current_time()
        await host.until(lambda: told(host, owner).alone, seconds=15)
        assert trio.current_time() - began < 1.2
