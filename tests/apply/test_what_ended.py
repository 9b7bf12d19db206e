"""Orders to containers that are gone when they come."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from sidecar.decide.facts import CpusetFailed
from tests.apply.test_executor import Bench, bench
from tests.support.engine.simulated import Fault

__all__ = ["bench"]

pytestmark = pytest.mark.trio


async def test_what_ended_before_its_order_is_no_warning(autojump_clock: MockClock, bench: Bench) -> None:
    """A brief container is often gone before it is moved, and the engine has an error for that."""
    one = await bench.run()
    bench.docker.kernel.leave(one)
    bench.engine.fail_updates(Fault.FAILED)
    bench.order(one)
    fact = await bench.outcome()
    assert isinstance(fact, CpusetFailed)
    await bench.next()
    assert "warning an order failed" not in " ".join(bench.lines.getvalue().split())
