"""A simulated container uses the lesser of what it wants and has, and the rest shows as pressure, as on a real
kernel.
"""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock

from sidecar.simulation.model_limits import Limits
from sidecar.simulation.simulated_use import SimulatedUse
from state.topology import uniform
from tests.support.engine.simulated_docker import SimulatedDocker


@pytest.mark.parametrize(("wanted", "cpus", "used"), [(3.5, 4, 3.5), (4.0, 4, 4.0), (9.0, 4, 4.0), (1.0, 0, 0.0)])
def test_it_uses_what_it_wants_as_far_as_it_has_it(wanted: float, cpus: int, used: float) -> None:
    use = SimulatedUse(wanted, 10.0)
    use.advance(12.0, cpus)
    assert use.usage().cpu_nanoseconds == round(2 * used * 1e9)
    assert use.usage().waiting_microseconds == (2_000_000 if wanted > cpus else 0)


def test_pressure_comes_and_goes_over_ten_seconds() -> None:
    """Two thirds of the way in each ten seconds, however often it is read."""
    once, often = SimulatedUse(2.0, 0.0), SimulatedUse(2.0, 0.0)
    once.advance(10.0, 1)
    for second in range(1, 11):
        often.advance(float(second), 1)
    assert once.usage().pressure == pytest.approx(63.2, abs=0.1)
    assert often.usage().pressure == pytest.approx(once.usage().pressure)
    once.advance(20.0, 2)
    assert once.usage().pressure == pytest.approx(63.2 * 0.368, abs=0.1)


@pytest.mark.trio
async def test_a_containers_counters_follow_its_cpus_and_begin_again(autojump_clock: MockClock) -> None:
    """Through a change of its CPUs, a stop and the next start, which wants the same."""
    docker = SimulatedDocker(uniform(cores=8), chance=Random(1))
    id = await docker.run("busy", Limits(cpuset="0-1"))
    kernel = docker.kernel

    def used() -> float:
        usage = kernel.usage(docker.container(id).view())
        assert usage is not None
        return usage.cpu_nanoseconds / 1e9

    assert used() == 0
    kernel.keep_busy(id, 3.0)
    await trio.sleep(10)
    assert used() == pytest.approx(20)
    await docker.change(id, Limits(cpuset="0-3"))
    before = used()
    await trio.sleep(10)
    assert used() - before == pytest.approx(30)
    await docker.stop(id)
    assert kernel.usage(docker.container(id).view()) is None
    await docker.start(id)
    before = used()
    assert before < 1
    await trio.sleep(10)
    assert used() - before == pytest.approx(30)
