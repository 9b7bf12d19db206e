"""The duration of one placement, by algorithm, machine and count: `make bench`. The worst of many: `placement`."""

from __future__ import annotations

import random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.bench.placement import MACHINES, PLACING, fragmented, is_within_bounds, measured


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("free", ["idle", "fragmented"])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("algorithm", PLACING)
def test_placement(benchmark: BenchmarkFixture, algorithm: str, machine: str, free: str, share: float) -> None:
    """A share of the free CPUs, of an idle machine or of one in random use."""
    on = MACHINES[machine]
    available = on.online if free == "idle" else fragmented(on, random.Random(7))
    count = max(1, round(share * len(available)))
    taken = benchmark(PLACING[algorithm], on, available, count)
    assert taken is not None
    assert len(taken) == count


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("algorithm", PLACING)
def test_no_fragmentation_makes_placement_slow(algorithm: str, machine: str) -> None:
    """Neither half of many random calls, nor the worst of them; on a busy host there is a second attempt."""
    assert any(is_within_bounds(measured(algorithm, machine, calls=200)) for _ in range(2))
