"""When the allocator writes what fronts answer to owners: withdrawn before the books, written down after them."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.allocator import Allocator
from sidecar.api.owner_answers import OwnerAnswers
from sidecar.decide.facts import ContainerSeen, Fact, GiveUpRequested, Phase
from sidecar.decide.hand_facts import AnswersHeld, HandReady
from sidecar.decide.orders import HoldAnswers
from sidecar.log import Log
from state.cpuset import CPUSet
from tests.support.daemon.host import inline
from tests.support.keys import docker
from tests.test_allocator import READY, Recorder, view

pytestmark = pytest.mark.trio

HOME = ("/docker",)
GIVEN_UP = GiveUpRequested(docker("b" * 64), "2026-01-01T00:00:00Z")


class Host(Recorder):
    """A recorder beside a hand that holds what it is told."""

    async def play(self, *facts: Fact) -> None:
        """Let an allocator take one fact after the other."""
        outbox, inbox = trio.open_memory_channel[Fact](10)
        allocator = Allocator(
            self,
            inbox,
            checkpoints=self,
            journal=self,
            projections=self,
            owners=OwnerAnswers(self.keep),
            start_orders=self.start_all,
            log=Log(self.lines),
        )
        tickets, told = iter(range(100, 200)), 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(allocator.run)
            for fact in facts:
                outbox.send_nowait(fact)
                await wait_all_tasks_blocked()
                while len(held := [each for each in self.orders if isinstance(each, HoldAnswers)]) > told:
                    told = len(held)
                    outbox.send_nowait(AnswersHeld(held[-1].number, HOME, CPUSet(), next(tickets)))
                    await wait_all_tasks_blocked()
            outbox.close()


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)
    return Host()


def story(*more: Fact) -> tuple[Fact, ...]:
    """Return how an owner comes to rest on its CPU, and what follows."""
    seen = ContainerSeen(view("b", exclusive=1, phase=Phase.CREATED), 3)
    return (*READY, HandReady(HOME, 2, home=HOME), seen, *more)


async def test_it_is_written_after_the_books_and_withdrawn_before_them(autojump_clock: MockClock, host: Host) -> None:
    """A crash between two writes leaves no answer that the books contradict; and no other order is held up."""
    await host.play(*story(GIVEN_UP))
    given, withdrawn = host.calls.index("own b 1"), host.calls.index("own nothing")
    assert "checkpoint" in host.calls[:given]
    assert host.calls[withdrawn + 1 : withdrawn + 3] == ["journal", "checkpoint"]
    assert host.saved[-1].assignments == {}
    assert host.calls.count("own b 1") == host.calls.count("own nothing") == 1


async def test_nothing_is_written_while_the_books_cannot_be(autojump_clock: MockClock, host: Host) -> None:
    """The next run would know nothing of that grant."""
    host.failing = {"checkpoint"}
    await host.play(*story())
    assert not [call for call in host.calls if call.startswith("own")]


async def test_what_cannot_be_written_is_told_and_tried_again(autojump_clock: MockClock, host: Host) -> None:
    """Decisions go on."""
    host.failing = {"owners"}
    await host.play(*story())
    said = "what fronts answer to owners without the sidecar cannot be written: disk full"
    assert host.problems == {"owners": said}
    assert host.lines.getvalue().count(said) == 1
