"""What an order did is told as what is known of it, where a container closed its cgroup to the sidecar."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from sidecar.decide.container.line import Fault, FaultKind
from sidecar.decide.facts import CpusetFailed, Failure
from sidecar.decide.world import replace
from tests.apply.test_executor import TWO, Bench

pytestmark = pytest.mark.trio


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    """Return an executor on a simulated engine."""
    return Bench(nursery)


async def test_an_order_whose_effect_cannot_be_read_is_not_said_to_have_none(
    autojump_clock: MockClock, bench: Bench
) -> None:
    """The kernel shows the CPUs of the cgroup above then. The cure is said, and retries are not logged again."""
    one = await bench.run()
    bench.docker.kernel.confine(TWO)
    bench.docker.kernel.closed[one] = "its file cannot be read: permission denied"
    bench.order(one)
    fact = await bench.next()
    assert isinstance(fact, CpusetFailed)
    assert (fact.failure, fact.effective) == (Failure.INEFFECTIVE, TWO)
    assert "the kernel shows" not in fact.reason
    for part in ("accepted CPU 1, but where one runs cannot be read", "permission denied", "CAP_DAC_OVERRIDE"):
        assert part in fact.reason
    await bench.next()
    key, world = fact.container, bench.board.latest
    failed = replace(world.containers[key], fault=Fault(FaultKind.INEFFECTIVE, fact.reason))
    bench.board.post(world.with_container(failed))
    bench.order(one)
    await bench.next()
    await bench.next()
    assert [line.split()[1] for line in bench.lines.getvalue().splitlines() if "cannot be read" in line] == ["warning"]
