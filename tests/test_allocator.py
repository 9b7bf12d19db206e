"""The allocator: bursts, and the order of journal, checkpoint, withdrawal, posting and orders."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.allocator import BURST, Allocator
from sidecar.api.owner_answers import OwnerAnswers
from sidecar.board import Board
from sidecar.decide.facts import (
    ContainerSeen,
    ContainerView,
    EngineConnected,
    EngineInfo,
    Fact,
    InventoryTaken,
    Phase,
    Purpose,
    RetryDue,
)
from sidecar.decide.orders import AnswerStart, ApplyCpuset, HoldAnswers, Order, SendSignal, StartTimer
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import World
from sidecar.failures import StateUnwritable
from sidecar.log import Log
from state.cpuset import CPUSet
from state.errors import FileUnwritable, ProjectionError, StateError
from state.model import State
from state.projection import Projection
from state.topology import uniform
from tests.support.daemon.host import inline
from tests.support.decide.stories import static
from tests.support.keys import docker

INFO = EngineInfo(name="docker", version="20.10.24", api_version="1.41", ncpu=4)


class Recorder(Board):
    """A board that is also the checkpoint, the journal, the projections and the executor, and records the calls."""

    def __init__(self, policy: PolicyName = PolicyName.STATIC) -> None:
        super().__init__(begin(State(), uniform(cores=4), static(policy=policy)))
        self.calls: list[str] = []
        self.bursts: list[int] = []
        self.saved: list[State] = []
        self.orders: list[Order] = []
        self.announced: list[tuple[float | None, float | None]] = []
        self.corrected: list[Projection] = []
        self.failing: set[str] = set()
        self.lines = io.StringIO()

    def append(self, facts: Sequence[Fact]) -> None:
        self.calls.append("journal")
        if "journal" in self.failing:
            raise StateUnwritable("the journal cannot be written: disk full")
        self.bursts.append(len(facts))

    def save(self, state: State) -> str:
        self.calls.append("checkpoint")
        if "checkpoint" in self.failing:
            raise FileUnwritable("cannot write the checkpoint: disk full")
        self.saved.append(state)
        return "disk full; until then it is kept in /spare" if "place" in self.failing else ""

    def withdraw(self, container: str, cpus: CPUSet) -> None:
        self.calls.append(f"withdraw {container[0]} {cpus}")
        if "projections" in self.failing:
            raise ProjectionError("by-id/a: disk full")

    def withdraw_many(self, taken: Sequence[tuple[str, CPUSet]]) -> list[str]:
        return [container for container, _ in taken]

    def begin(self, container: str, projection: Projection) -> None:
        self.calls.append(f"begin {container[0]} {projection.cpus}")
        if "projections" in self.failing:
            raise ProjectionError("by-id/a: disk full")

    def correct(self, container: str, projection: Projection) -> None:
        self.calls.append(f"correct {container[0]} {projection.sharing.value} {projection.cpus}")
        self.corrected.append(projection)
        if "projections" in self.failing:
            raise ProjectionError("by-id/a: disk full")

    def announce(
        self, container: str, names: Iterable[str], projection: Projection, *, grace_seconds: float | None = None
    ) -> None:
        self.calls.append(f"announce {container[0]} {projection.cpus} leaving {projection.leaving}")
        assert list(names) == []
        self.announced.append((projection.deadline_seconds, grace_seconds))
        if "projections" in self.failing:
            raise ProjectionError("by-id/a: disk full")

    def keep(self, answers: Mapping[str, str]) -> None:
        """Have fronts answer owners so."""
        names = " ".join(f"{id[0]} {json.loads(answer)['update']['cpus']}" for id, answer in answers.items())
        self.calls.append(f"own {names or 'nothing'}")
        if "owners" in self.failing:
            raise StateError("disk full")

    def post(self, world: World) -> None:
        self.calls.append("post")
        super().post(world)

    def start_all(self, orders: Sequence[Order]) -> None:
        for order in orders:
            self.start(order)

    def start(self, order: Order) -> None:
        match order:
            case ApplyCpuset():
                self.calls.append(f"order {order.container.id[0]}")
            case StartTimer(purpose=Purpose.GRACE):
                self.calls.append(f"grace {order.container.id[0]}")
            case SendSignal():
                self.calls.append(f"signal {order.container.id[0]}")
            case HoldAnswers():
                self.calls.append("answers")
            case AnswerStart():
                self.calls.append(f"answer {order.container.id[0]}")
            case _:
                self.calls.append("other")
        self.orders.append(order)

    async def take(self, *bursts: Sequence[Fact]) -> None:
        """Run an allocator that takes these bursts and ends."""
        outbox, inbox = trio.open_memory_channel[Fact](2000)
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
        async with trio.open_nursery() as nursery:
            nursery.start_soon(allocator.run)
            for burst in bursts:
                for fact in burst:
                    outbox.send_nowait(fact)
                await wait_all_tasks_blocked()
            outbox.close()


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)
    return Recorder()


def view(letter: str, *, exclusive: int = 0, phase: Phase = Phase.RUNNING, **labels: str) -> ContainerView:
    named = {f"cpuset.{key}": value for key, value in labels.items()}
    return ContainerView(
        engine="docker",
        id=letter * 64,
        name=letter,
        phase=phase,
        labels={"cpuset.exclusive": str(exclusive), **named} if exclusive else {},
        effective=CPUSet(range(4)) if phase.is_live else None,
    )


READY: tuple[Fact, ...] = (EngineConnected(INFO, 0), InventoryTaken((), (), 1))

pytestmark = pytest.mark.trio


async def test_everything_is_on_disk_before_an_order_leaves(autojump_clock: MockClock, recorder: Recorder) -> None:
    """Journal and checkpoint come first. Before an order, the World is posted, and the CPUs that it takes are
    withdrawn.
    """
    await recorder.take(READY, [ContainerSeen(view("a"), 2), ContainerSeen(view("b", exclusive=1), 3)])
    assert recorder.calls[:3] == ["journal", "checkpoint", "post"]
    calls = recorder.calls[3:]
    assert calls[:2] == ["journal", "checkpoint"]
    assert sorted(calls[2:]) == ["order a", "order b", "post", "withdraw a 0,2-3", "withdraw b 1"]
    assert calls.index("post") < calls.index("order a")
    assert calls.index("withdraw a 0,2-3") < calls.index("order a")
    assert calls.index("withdraw b 1") < calls.index("order b")
    assert recorder.saved[-1].originals.keys() == {docker("a" * 64), docker("b" * 64)}
    assert recorder.saved[-1].assignments.keys() == {docker("b" * 64)}


async def test_what_is_not_live_is_withdrawn_too(autojump_clock: MockClock, recorder: Recorder) -> None:
    """It may be started at any moment, and then reads its files."""
    await recorder.take(READY, [ContainerSeen(view("b", exclusive=1, phase=Phase.CREATED), 2)])
    assert recorder.calls[3:] == ["journal", "checkpoint", "post", "withdraw b 1", "order b", "other"]
    assert isinstance(recorder.orders[0], ApplyCpuset)
    assert not recorder.orders[0].live


async def test_what_waits_is_one_burst(autojump_clock: MockClock, recorder: Recorder) -> None:
    """A burst has an upper bound."""
    facts = [ContainerSeen(view("a"), number + 2) for number in range(BURST + 5)]
    await recorder.take(READY, facts)
    assert recorder.bursts == [2, BURST, 5]


async def test_no_news_is_not_written_down(autojump_clock: MockClock, recorder: Recorder) -> None:
    await recorder.take(READY, [ContainerSeen(view("a"), 2)])
    recorder.calls.clear()
    await recorder.take([RetryDue(docker("f" * 64), 1)])
    assert recorder.calls == ["checkpoint"]  # once for a new allocator, to know that it can be written
    recorder.calls.clear()
    await recorder.take([ContainerSeen(view("a"), 5)], [RetryDue(docker("f" * 64), 1)])
    assert recorder.calls == ["journal", "checkpoint", "post"]


async def test_a_checkpoint_that_cannot_be_written_is_told_once_and_tried_again(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    """Decisions go on: the engine and an inventory can rebuild the State."""
    recorder.failing = {"checkpoint"}
    await recorder.take(READY, [ContainerSeen(view("b", exclusive=1), 2)], [ContainerSeen(view("a"), 3)])
    assert len(recorder.orders) == 2
    assert recorder.saved == []
    assert recorder.problems == {
        "checkpoint": "the recorded state is not saved: cannot write the checkpoint: disk full"
    }
    assert recorder.lines.getvalue().count("the recorded state is not saved") == 1
    assert recorder.calls.count("checkpoint") == 3
    recorder.failing = set()
    await recorder.take([ContainerSeen(view("c"), 4)])
    assert recorder.problems == {}
    assert recorder.saved[-1] is recorder.latest.state


async def test_books_that_are_kept_elsewhere_are_told_and_tried_again(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    """The State is safe, but not in its usual place."""
    recorder.failing = {"place"}
    await recorder.take(READY, [ContainerSeen(view("b", exclusive=1), 2)])
    said = "the recorded state is not saved: disk full; until then it is kept in /spare"
    assert recorder.problems == {"checkpoint": said}
    recorder.failing = set()
    await recorder.take([RetryDue(docker("f" * 64), 1)])
    assert recorder.problems == {}


async def test_a_checkpoint_is_tried_again_though_nothing_changed(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    recorder.failing = {"checkpoint"}
    await recorder.take(READY)
    recorder.failing = set()
    await recorder.take([RetryDue(docker("f" * 64), 1)])
    assert recorder.saved == [recorder.latest.state]


async def test_a_journal_that_cannot_be_written_is_told(autojump_clock: MockClock, recorder: Recorder) -> None:
    recorder.failing = {"journal"}
    await recorder.take(READY)
    assert recorder.problems == {"journal": "the journal cannot be written: disk full"}
    recorder.failing = set()
    await recorder.take([ContainerSeen(view("a"), 2)])
    assert recorder.problems == {}


async def test_a_projection_that_cannot_be_withdrawn_is_told_and_the_order_leaves(
    autojump_clock: MockClock, recorder: Recorder
) -> None:
    recorder.failing = {"projections"}
    await recorder.take(READY, [ContainerSeen(view("a"), 2), ContainerSeen(view("b", exclusive=1), 3)])
    assert recorder.problems == {"projections": "by-id/a: disk full"}
    assert len(recorder.orders) == 2


async def test_many_withdrawals_are_one_and_what_is_left_is_withdrawn_one_by_one(
    autojump_clock: MockClock, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them before the first order leaves, also if they fail together unexpectedly."""
    for error in (None, ValueError("planted")):
        made = Recorder()

        def withdraw_many(
            taken: Sequence[tuple[str, CPUSet]], made: Recorder = made, error: Exception | None = error
        ) -> list[str]:
            made.calls.append(f"withdraw {' '.join(sorted(container[0] for container, _ in taken))}")
            if error is not None:
                raise error
            return [container for container, _ in taken if container[0] == "a"]

        monkeypatch.setattr(made, "withdraw_many", withdraw_many)
        live = [ContainerSeen(view(letter), 2) for letter in "ac"]
        await made.take(READY, [*live, ContainerSeen(view("b", exclusive=1), 3)])
        calls = made.calls[made.calls.index("withdraw a b c") :]
        one_by_one = ["withdraw a 0,2-3"] if error is None else ["withdraw a 0,2-3", "withdraw b 1", "withdraw c 0,2-3"]
        assert sorted(calls[1 : 1 + len(one_by_one)]) == one_by_one
        assert sorted(calls[1 + len(one_by_one) :]) == ["order a", "order b", "order c"]
        assert made.crashes == (0 if error is None else 1)
