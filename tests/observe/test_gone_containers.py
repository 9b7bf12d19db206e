"""What is a problem of one container is none any more once that is gone."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.facts import ContainerView
from sidecar.failures import EngineSilent
from tests.observe.bench import Bench
from tests.support.keys import docker

pytestmark = pytest.mark.trio


async def test_a_container_that_hung_and_is_gone_is_no_problem_any_more(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its removal on, and not only from the next inventory on."""
    one = await bench.docker.run("one")

    async def in_vain(_: str) -> ContainerView:
        await trio.sleep(10)
        raise EngineSilent("the engine did not answer within 10 s")

    monkeypatch.setattr(bench.engine, "inspect", in_vain)
    await bench.looker.take_inventory()
    await bench.next()
    await trio.sleep(15)
    assert bench.board.problems == {"looks": "these containers cannot be inspected: one"}
    bench.looker.removed(docker(one))
    assert bench.board.problems == {}
