"""When the allocator saves what needs no disk at once."""

from __future__ import annotations

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.allocator import SAVE_SECONDS, Allocator
from sidecar.api.owner_answers import OwnerAnswers
from sidecar.decide.facts import ContainerSeen, CpusetApplied, Fact, Phase, StartHeld
from sidecar.decide.hand_facts import AnswersHeld, CpusetWritten, HandReady
from sidecar.decide.orders import ApplyCpuset, HoldAnswers, WriteCpuset
from sidecar.log import Log
from state.cpuset import CPUSet
from tests.support.daemon.host import inline
from tests.support.keys import docker
from tests.test_allocator import READY, Recorder, view

pytestmark = pytest.mark.trio

HOME = ("/docker",)


async def test_what_any_look_shows_again_is_saved_within_seconds(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newcomer that asks for nothing, and that the hand covers."""
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)
    recorder = Recorder()
    outbox, inbox = trio.open_memory_channel[Fact](10)
    log = Log(recorder.lines)
    allocator = Allocator(
        recorder,
        inbox,
        checkpoints=recorder,
        journal=recorder,
        projections=recorder,
        owners=OwnerAnswers(recorder.keep),
        start_orders=recorder.start_all,
        log=log,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(allocator.run)
        for fact in (*READY, HandReady(HOME, 2, home=HOME)):
            outbox.send_nowait(fact)
            await wait_all_tasks_blocked()
        [held] = [order for order in recorder.orders if isinstance(order, HoldAnswers)]
        for fact in (AnswersHeld(held.number, HOME, CPUSet(), 3), ContainerSeen(view("a"), 4)):
            outbox.send_nowait(fact)
            await wait_all_tasks_blocked()
        assert recorder.saved[-1].originals == {}
        await trio.sleep(SAVE_SECONDS + 1)
        assert recorder.calls[-1] == "checkpoint"
        assert recorder.saved[-1].originals.keys() == {docker("a" * 64)}
        outbox.close()
    assert recorder.calls[-1] == "checkpoint"


async def test_what_needs_no_books_leaves_before_they_are_on_disk(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of an owner ends its rest, which any look shows: its cgroup is written at once. The books are on disk
    before the next order to the engine.
    """
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)
    recorder = Recorder()
    created = view("b", exclusive=1, phase=Phase.CREATED)
    running = msgspec.structs.replace(view("b", exclusive=1), started_at="now", found_below=HOME[0])
    held = AnswersHeld(0, HOME, CPUSet(), 3)
    await recorder.take(
        (*READY, HandReady(HOME, 2, home=HOME)),
        [held],
        [ContainerSeen(created, 4)],
        [msgspec.structs.replace(held, number=2, ended=5), CpusetApplied(created.key, 3, None, 6)],
        [ContainerSeen(running, 7)],
        [CpusetWritten(created.key, 7, CPUSet.of(1), 8)],
        [ContainerSeen(msgspec.structs.replace(running, cpuset="0", effective=CPUSet.of(1)), 9)],
    )
    last = len(recorder.calls) - recorder.calls[::-1].index("order b") - 1
    written = recorder.calls.index("other", recorder.calls.index("order b") + 2)
    assert isinstance(recorder.orders[-2], WriteCpuset)
    assert isinstance(recorder.orders[-1], ApplyCpuset)
    assert "checkpoint" not in recorder.calls[recorder.calls.index("order b") : written]
    assert "checkpoint" in recorder.calls[written:last]
    assert recorder.saved[-1].assignments[created.key].rest is None


async def test_a_start_is_answered_before_the_books_are_on_disk(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have what it is told: its grant and its originals. The engine's record of it comes after the disk. A first
    start whose originals they lack waits for the disk.
    """
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)
    recorder = Recorder()
    owner, plain = view("b", exclusive=1, phase=Phase.CREATED), view("a", phase=Phase.CREATED)
    ordered = CpusetApplied(owner.key, 1, None, 4)
    await recorder.take(READY, [ContainerSeen(owner, 3)], [ordered], [StartHeld(owner, 7, 5)], [StartHeld(plain, 8, 6)])
    first, second = recorder.calls.index("answer b"), recorder.calls.index("answer a")
    since = len(recorder.calls[:first]) - recorder.calls[:first][::-1].index("journal")
    assert "checkpoint" not in recorder.calls[since:first]
    assert "checkpoint" in recorder.calls[first:second]
    assert recorder.saved[-1].assignments[owner.key].rest is None
    assert recorder.saved[-1].originals.keys() == {owner.key, plain.key}
