"""News of cpusets that the hand does not surely keep as they should be: facts, and problems that say what to do."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from sidecar.decide.covering import after_hand
from sidecar.decide.hand_facts import Overwritten, Slipped
from sidecar.decide.hand_state import HandState
from sidecar.decide.world import replace
from sidecar.ports import GroupOverwritten, GroupShut
from state.cpuset import EMPTY, CPUSet
from tests.observe.test_births import ONE, Bench
from tests.support.keys import docker

pytestmark = pytest.mark.trio


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    """Return a follower of a simulated hand."""
    return Bench(nursery)


async def test_writes_that_the_hand_may_lose_to_are_not_said_to_be_corrected(
    bench: Bench, nursery: trio.Nursery
) -> None:
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 1000))
    fact = await bench.news()
    assert isinstance(fact, Overwritten)
    await trio.testing.wait_all_tasks_blocked()
    assert "corrected each time" in " ".join(bench.board.problems.values())
    world = replace(bench.board.latest, hand=HandState(parents=("/docker",)))
    bench.board.post(after_hand(world, fact)[0])
    said = " ".join(bench.board.problems.values())
    assert "no container is alone beside it" in said
    assert "corrected each time" not in said


async def test_a_group_that_is_closed_to_the_hand_is_a_fact_and_a_problem_with_its_cause_and_cure(
    bench: Bench, nursery: trio.Nursery
) -> None:
    """Also when writes are told afterwards that were undone before."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(
        GroupShut(ONE, CPUSet.of(3), "the cgroup /docker/one cannot be written: permission denied")
    )
    fact = await bench.news()
    assert isinstance(fact, Slipped)
    assert (fact.container, fact.reason) == (docker(ONE), "the cgroup /docker/one cannot be written: permission denied")
    bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 70))
    await bench.news()
    await trio.testing.wait_all_tasks_blocked()
    said = " ".join(bench.board.problems.values())
    assert "out of the sidecar's hand" in said
    for part in ("permission denied", "last seen on CPU 3", "CAP_DAC_OVERRIDE", "a writable /sys/fs/cgroup"):
        assert part in said
    assert bench.lines.getvalue().count("the cgroup of a container is closed to the sidecar") == 1
    bench.hand._send.send_nowait(GroupShut(ONE, EMPTY, "it is closed"))
    await bench.news()
    await trio.testing.wait_all_tasks_blocked()
    assert "where it runs cannot be read" in " ".join(bench.board.problems.values())


async def test_a_few_writes_that_stood_are_a_problem(bench: Bench, nursery: trio.Nursery) -> None:
    """Equal ones are counted as one: the number says little."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 1, is_wrested=True))
    assert await bench.news() == Overwritten(docker(ONE), CPUSet.of(3), 1, is_wrested=True)
    await trio.testing.wait_all_tasks_blocked()
    assert "1 time so far" in " ".join(bench.board.problems.values())
