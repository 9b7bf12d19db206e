"""When the allocator saves what needs no disk at once."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.allocator import SAVE_SECONDS, Allocator
from sidecar.decide.facts import ContainerSeen, Fact
from sidecar.decide.hand_facts import AnswersHeld, HandReady
from sidecar.decide.orders import HoldAnswers
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
        start_order=recorder.start,
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
