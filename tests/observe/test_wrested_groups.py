"""News of cpusets that the hand does not surely keep as they should be: facts, and problems that say what to do."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from sidecar.decide.covering import after_hand
from sidecar.decide.hand_facts import Overwritten, Slipped
from sidecar.decide.hand_state import HandState
from sidecar.decide.sightings import sighted
from sidecar.decide.world import replace
from sidecar.observe.births import SHUT_SECONDS
from sidecar.observe.foreign_writes import CALM_SECONDS
from sidecar.ports import GroupOverwritten, GroupShut, GroupStuck
from state.cpuset import EMPTY, CPUSet
from tests.observe.test_births import ONE, Bench
from tests.support.keys import docker

DENIED = "the cgroup /docker/one cannot be written: permission denied"

pytestmark = pytest.mark.trio


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    """Return a follower of a simulated hand."""
    return Bench(nursery)


async def shut(bench: Bench, found: CPUSet, reason: str) -> None:
    """Have the container's group told as closed, and the fact folded."""
    bench.hand._send.send_nowait(GroupShut(ONE, found, reason))
    fact = await bench.news()
    assert isinstance(fact, Slipped)
    assert (fact.container, fact.reason) == (docker(ONE), reason)
    world = bench.board.latest
    hand = world.hand or HandState(parents=("/docker",))
    bench.board.post(after_hand(replace(world, hand=hand), fact)[0])


async def told(bench: Bench) -> str:
    """Return the problems, once all news is taken."""
    await trio.testing.wait_all_tasks_blocked()
    return " ".join(bench.board.problems.values())


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
    await shut(bench, CPUSet.of(3), DENIED)
    bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 70))
    await bench.news()
    said = await told(bench)
    assert "out of the sidecar's hand" in said
    for part in ("permission denied", "last seen on CPU 3", "CAP_DAC_OVERRIDE", "a writable /sys/fs/cgroup"):
        assert part in said
    assert bench.lines.getvalue().count("the cgroup of a container is closed to the sidecar") == 1
    await shut(bench, EMPTY, "it is closed")
    assert "where it runs cannot be read" in await told(bench)


async def test_a_parent_that_is_closed_is_a_problem_until_it_is_opened(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Nothing tells of that, so it is looked for. A group that is closed by itself accuses no parent."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(GroupStuck(f"/docker/{ONE}"))
    assert not await told(bench)
    bench.hand.closed = ("/docker",)
    bench.hand._send.send_nowait(GroupStuck(f"/docker/{ONE}"))
    said = await told(bench)
    for part in ("mode of /docker was changed", "no birth below it is answered", "CAP_DAC_OVERRIDE", "mode 755"):
        assert part in said
    bench.hand.closed = ()
    await trio.sleep(SHUT_SECONDS + 1)
    assert not await told(bench)


async def test_what_was_closed_before_a_restart_is_not_said_to_be_closed(bench: Bench, nursery: trio.Nursery) -> None:
    """The group of the next run is another one, and the minute goes on: both are said."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    await shut(bench, CPUSet.of(3), DENIED)
    world = bench.board.latest
    view = replace(world.containers[docker(ONE)].view, started_at="later")
    bench.board.post(sighted(world, view, 100))
    said = await told(bench)
    assert "permission denied" not in said
    for part in ("before its last start", "a minute", "CAP_DAC_OVERRIDE", "a writable /sys/fs/cgroup"):
        assert part in said


async def test_what_is_closed_is_a_problem_as_long_as_it_is_also_when_it_is_calm(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """The engine alone moves it. Others may be alone beside it then; its next start ends it."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    await shut(bench, CPUSet.of(3), DENIED)
    await trio.sleep(CALM_SECONDS + 10)
    calm = await bench.news()
    assert calm == Overwritten(docker(ONE), EMPTY, 0)
    bench.board.post(after_hand(bench.board.latest, calm)[0])
    said = await told(bench)
    assert "out of the sidecar's hand" in said
    assert "until its next start" in said
    assert "no container is alone" not in said
    world = bench.board.latest
    view = replace(world.containers[docker(ONE)].view, started_at="later")
    bench.board.post(sighted(world, view, 100))
    assert not bench.board.problems


async def test_a_few_writes_that_stood_are_a_problem(bench: Bench, nursery: trio.Nursery) -> None:
    """Equal ones are counted as one: the number says little."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 1, is_wrested=True))
    assert await bench.news() == Overwritten(docker(ONE), CPUSet.of(3), 1, is_wrested=True)
    await trio.testing.wait_all_tasks_blocked()
    assert "1 time so far" in " ".join(bench.board.problems.values())
