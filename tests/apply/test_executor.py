"""The executor: outcomes as facts, pauses that end in facts, and last answers when the daemon ends."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from copy import copy
from random import Random

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from sidecar.apply.executor import DELAYED_SECONDS, LAST_ANSWER_SECONDS, REFUSED_PAUSE, Executor
from sidecar.apply.hand_orders import HandOrders
from sidecar.board import Board
from sidecar.decide.facts import (
    ContainerView,
    CpusetApplied,
    CpusetFailed,
    Fact,
    Failure,
    OrderDelayed,
    Purpose,
    RetryDue,
    StopFailed,
    TimerEnded,
    TopologyRead,
)
from sidecar.decide.hand_facts import CpusetWritten, WriteFailed
from sidecar.decide.orders import (
    Answers,
    AnswerStart,
    ApplyCpuset,
    HoldAnswers,
    LookAgain,
    ReadTopology,
    StartTimer,
    StopContainer,
    Update,
    WriteCpuset,
)
from sidecar.decide.reconcile import begin
from sidecar.decide.sightings import sighted
from sidecar.log import Log
from state.cpuset import CPUSet
from state.errors import StateError
from state.key import ContainerKey
from state.model import State
from state.refusal import Refusal, RefusalCode
from state.topology import Topology, uniform
from tests.support.daemon.host import inline
from tests.support.decide.stories import static
from tests.support.engine.simulated import Fault, SimulatedEngine
from tests.support.engine.simulated_docker import SimulatedDocker
from tests.support.hand.simulated_hand import SimulatedHand
from tests.support.keys import docker

NO_CPUS = Refusal(RefusalCode.NOT_ENOUGH)

ONE, TWO = CPUSet.of(1), CPUSet.of(2)

pytestmark = pytest.mark.trio


class Bench:
    """An executor on a simulated engine; facts come out of `inbox`."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.docker = SimulatedDocker(uniform(cores=4), chance=Random(1), cgroup_version=2)
        self.engine = SimulatedEngine(self.docker)
        self.board = Board(begin(State(), uniform(cores=4), static()))
        self.looks: list[ContainerKey] = []
        self.answers: list[AnswerStart] = []
        self.lines = io.StringIO()
        self.outbox, self.inbox = trio.open_memory_channel[Fact](100)
        self.tickets = itertools.count(1).__next__
        self.hands = HandOrders(self.board, self.outbox.send_nowait, tickets=self.tickets)
        self.executor = Executor(
            nursery,
            self.board,
            self.outbox,
            engine=self.engine,
            kernel=self.docker.kernel,
            tickets=self.tickets,
            answer=self.answers.append,
            look=self.looks.append,
            hand=self.hands,
            rng=Random(1),
            log=Log(self.lines),
        )

    async def run(self, name: str = "one") -> str:
        """Add a running container that the board knows."""
        made = await self.docker.run(name)
        self.board.post(sighted(self.board.latest, self.docker.container(made).view(), self.tickets()))
        return made

    def order(self, container: str, cpus: CPUSet = ONE, *, number: int = 7) -> ApplyCpuset:
        order = ApplyCpuset(docker(container), number, Update(cpus=cpus), live=True)
        self.executor.start(order)
        return order

    async def next(self, seconds: float = 100) -> Fact:
        with trio.fail_after(seconds):
            return await self.inbox.receive()

    async def outcome(self) -> Fact:
        """Return the next outcome, without the notices of late orders, which precede a lost order."""
        fact = await self.next()
        return await self.next() if isinstance(fact, OrderDelayed) else fact


@pytest.fixture
def bench(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(trio.to_thread, "run_sync", inline)
    return Bench(nursery)


async def test_an_order_that_took_effect(autojump_clock: MockClock, bench: Bench) -> None:
    """With the kernel's value, and a ticket that is drawn when the outcome is known."""
    one = await bench.run()
    before = bench.tickets()
    bench.order(one)
    fact = await bench.next()
    assert fact == CpusetApplied(docker(one), 7, ONE, before + 1)
    assert bench.docker.effective(one) == ONE


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        (Fault.REFUSED, Failure.REFUSED),
        (Fault.FAILED, Failure.FAILED),
        (Fault.LOST_BEFORE, Failure.LOST),
        (Fault.LOST_AFTER, Failure.LOST),
        (Fault.CUT_BEFORE, Failure.LOST),
        (Fault.CUT_AFTER, Failure.LOST),
    ],
)
async def test_an_order_that_failed_is_told_and_its_pause_ends_in_a_fact(
    autojump_clock: MockClock, bench: Bench, fault: Fault, failure: Failure
) -> None:
    """The executor itself never repeats it; an order that the engine called invalid waits longest."""
    one = await bench.run()
    bench.engine.fail_updates(fault)
    bench.order(one)
    fact = await bench.outcome()
    assert isinstance(fact, CpusetFailed)
    assert (fact.container, fact.order, fact.failure) == (docker(one), 7, failure)
    assert fact.reason
    began = trio.current_time()
    assert await bench.next() == RetryDue(docker(one), 7)
    paused = trio.current_time() - began
    low, high = (REFUSED_PAUSE, REFUSED_PAUSE) if failure is Failure.REFUSED else (0.1, 0.2)
    assert low <= round(paused, 6) <= high
    assert len(bench.engine.updates) == 1
    assert "an order failed container=one" in bench.lines.getvalue()


async def test_a_container_that_is_gone_needs_no_retry(autojump_clock: MockClock, bench: Bench) -> None:
    one = await bench.run()
    await bench.docker.remove(one)
    bench.order(one)
    fact = await bench.next()
    assert isinstance(fact, CpusetFailed)
    assert fact.failure is Failure.GONE
    with trio.move_on_after(100) as scope:
        await bench.inbox.receive()
    assert scope.cancelled_caught


async def test_an_order_without_effect(autojump_clock: MockClock, bench: Bench) -> None:
    """cgroup v2 accepts CPUs outside the parent's, without effect."""
    one = await bench.run()
    bench.docker.kernel.confine(TWO)
    bench.order(one)
    fact = await bench.next()
    assert isinstance(fact, CpusetFailed)
    assert (fact.failure, fact.effective) == (Failure.INEFFECTIVE, TWO)
    above = "the cgroup above it has CPUs 2 only"
    assert fact.reason == f"the engine accepted CPU 1, but the kernel shows 2: {above}"


async def test_an_order_onto_a_cpu_that_went_offline_accuses_no_cgroup(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is told of once, elsewhere: there is nothing to be done about the order."""
    one = await bench.run()
    bench.docker.kernel.confine(TWO)
    # The engine still counts the CPU: it went offline between its look and the kernel's.
    seen = copy(bench.docker.kernel)
    monkeypatch.setattr(seen, "online", lambda: TWO)
    monkeypatch.setattr(bench.executor, "_kernel", seen)
    bench.order(one, CPUSet.of(1, 2))
    fact = await bench.next()
    assert isinstance(fact, CpusetFailed)
    assert fact.reason == "the engine accepted CPUs 1-2, but CPU 1 went offline"
    await bench.next()
    assert "warning an order failed" not in " ".join(bench.lines.getvalue().split())


async def test_pauses_grow_with_every_failure_and_restart_after_a_success(
    autojump_clock: MockClock, bench: Bench
) -> None:
    one = await bench.run()
    pauses = []
    for number, fault in enumerate([Fault.FAILED] * 5 + [None, Fault.FAILED]):
        if fault:
            bench.engine.fail_updates(fault)
        bench.order(one, number=number)
        await bench.next()
        began = trio.current_time()
        if fault:
            await bench.next()
            pauses.append(trio.current_time() - began)
    for pause, longest in zip(pauses, [0.2, 0.4, 0.8, 1.6, 3.2, 0.2], strict=True):
        assert longest / 2 <= round(pause, 6) <= longest


async def test_a_slow_start_holds_up_its_own_update_and_no_other(autojump_clock: MockClock, bench: Bench) -> None:
    one, two = await bench.run("one"), await bench.run("two")
    await bench.docker.stop(one)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.docker.start, one)
        await trio.sleep(0.001)
        began = trio.current_time()
        bench.order(one)
        bench.order(two)
        first, second = await bench.next(), await bench.next()
        assert isinstance(first, CpusetApplied)
        assert isinstance(second, CpusetApplied)
        assert (first.container, second.container) == (docker(two), docker(one))
        assert trio.current_time() - began > bench.docker.pace.start


async def test_an_order_that_hangs_is_told_as_late(
    autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, in addition to its outcome; an order that is answered in time is not."""
    one = await bench.run("one")
    honest = bench.engine.update

    async def slow(container: str, update: Update) -> None:
        await trio.sleep(3 * DELAYED_SECONDS)
        await honest(container, update)

    monkeypatch.setattr(bench.engine, "update", slow)
    order = bench.order(one)
    assert await bench.next() == OrderDelayed(docker(one), order.number)
    assert isinstance(await bench.next(), CpusetApplied)
    monkeypatch.undo()
    bench.order(one)
    assert isinstance(await bench.next(), CpusetApplied)
    await trio.sleep(3 * DELAYED_SECONDS)
    assert bench.inbox.statistics().current_buffer_used == 0


async def test_the_other_orders(autojump_clock: MockClock, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is asked for, a timer fires, the machine is read, a container is stopped."""
    one = await bench.run()
    bench.executor.start(LookAgain(docker(one)))
    assert bench.looks == [docker(one)]
    began = trio.current_time()
    bench.executor.start(StartTimer(docker(one), Purpose.LINGER, 3, 7.5))
    assert await bench.next() == TimerEnded(docker(one), Purpose.LINGER, 3)
    assert trio.current_time() - began == pytest.approx(7.5)
    bench.executor.start(ReadTopology())
    assert await bench.next() == TopologyRead(bench.docker.kernel.topology())
    bench.executor.start(StopContainer(docker(one), NO_CPUS))
    await trio.sleep(1)
    assert bench.docker.effective(one) is None

    def broken() -> Topology:
        raise StateError("sysfs is not there")

    monkeypatch.setattr(bench.docker.kernel, "topology", broken)
    bench.executor.start(ReadTopology())
    await trio.sleep(1)
    assert "the machine's topology cannot be read" in bench.lines.getvalue()


async def test_a_stop_that_fails_is_told_after_a_pause(autojump_clock: MockClock, bench: Bench) -> None:
    """The next attempt follows from it."""
    one = await bench.run()
    await bench.docker.go_down()
    began = trio.current_time()
    bench.executor.start(StopContainer(docker(one), NO_CPUS))
    fact = await bench.next()
    assert trio.current_time() > began
    assert isinstance(fact, StopFailed)
    assert "it cannot be stopped" in fact.reason
    await bench.docker.come_up()
    bench.executor.start(StopContainer(docker("f" * 64), NO_CPUS))
    with trio.move_on_after(5) as scope:
        await bench.inbox.receive()
    assert scope.cancelled_caught


# The end.


async def ended(bench: Bench, orders: Sequence[str], *, after: float) -> None:
    """Start orders in a nursery of their own, which is stopped a while later."""
    async with trio.open_nursery() as nursery:
        bench.executor._nursery = nursery
        for container in orders:
            bench.order(container)
        if after:
            await trio.sleep(after)
        bench.executor.stop()


async def test_an_order_already_sent_is_learnt_at_the_end(autojump_clock: MockClock, bench: Bench) -> None:
    one = await bench.run()
    await ended(bench, [one], after=0.001)
    assert isinstance(bench.inbox.receive_nowait(), CpusetApplied)


async def test_an_answer_that_does_not_come_is_waited_for_in_bounded_time(
    autojump_clock: MockClock, bench: Bench
) -> None:
    one = await bench.run()
    bench.engine.fail_updates(Fault.LOST_BEFORE)
    began = trio.current_time()
    await ended(bench, [one], after=0.001)
    assert trio.current_time() - began == pytest.approx(LAST_ANSWER_SECONDS, abs=0.1)


async def test_an_order_that_is_not_begun_is_not_sent(autojump_clock: MockClock, bench: Bench) -> None:
    """Whether it was started an instant before the end, or after."""
    one = await bench.run()
    await ended(bench, [one], after=0)
    bench.order(one)
    await trio.sleep(1)
    assert bench.engine.updates == []


async def test_a_pause_does_not_hold_up_the_end(autojump_clock: MockClock, bench: Bench) -> None:
    one = await bench.run()
    bench.engine.fail_updates(Fault.REFUSED)
    began = trio.current_time()
    await ended(bench, [one], after=1)
    assert trio.current_time() - began == pytest.approx(1)
    assert isinstance(bench.inbox.receive_nowait(), CpusetFailed)
    with pytest.raises(trio.WouldBlock):
        bench.inbox.receive_nowait()


async def test_writes_that_follow_each_other_are_one(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their turn among other orders."""
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        done: list[object] = []
        monkeypatch.setattr(bench.hands, "write_many", lambda orders: done.append([each.number for each in orders]))
        monkeypatch.setattr(bench.hands, "write", lambda order: done.append(order.number))
        monkeypatch.setattr(bench.hands, "hold", lambda order: done.append("hold"))
        writes = [WriteCpuset(docker(f"{number}" * 64), number, Update(cpus=ONE)) for number in range(4)]
        bench.executor.start_all([writes[0], HoldAnswers(9, Answers()), *writes[1:], LookAgain(docker("a" * 64))])
        assert done == [0, "hold", [1, 2, 3]]
        assert bench.looks == [docker("a" * 64)]
        bench.executor.stop()
        bench.executor.start_all(writes)
        assert len(done) == 3


async def test_an_unexpected_error_of_many_writes_costs_the_one_that_has_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written before is written again, and told once more: only the first outcome counts."""
    async with trio.open_nursery() as nursery:
        bench = Bench(nursery)
        bench.hands.use(hand := SimulatedHand(CPUSet(range(4))))
        hand.make("/docker")
        ids = [await bench.run(name) for name in ("one", "two", "three")]
        for id in ids:
            hand.make(f"/docker/{id}")
        honest = hand.write

        def write(view: ContainerView, update: Update) -> CPUSet:
            if view.id == ids[1]:
                raise ValueError("planted")
            return honest(view, update)

        monkeypatch.setattr(hand, "write", write)
        bench.executor.start_all([WriteCpuset(docker(id), number, Update(cpus=ONE)) for number, id in enumerate(ids)])
        await wait_all_tasks_blocked()
        facts = [bench.inbox.receive_nowait() for _ in range(3)]
        assert {(type(each), each.order) for each in facts if isinstance(each, CpusetWritten | WriteFailed)} == {
            (CpusetWritten, 0),
            (WriteFailed, 1),
            (CpusetWritten, 2),
        }
        assert [hand.cpus(f"/docker/{id}") for id in (ids[0], ids[2])] == [ONE, ONE]
        assert bench.board.crashes == 2
        nursery.cancel_scope.cancel()
