"""Orders to the hand: carried out at once, each with an outcome as a fact."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sidecar.apply.hand_orders import ENDED_SECONDS, STUCK_SECONDS, HandOrders
from sidecar.apply.standing_orders import StandingOrders
from sidecar.board import Board
from sidecar.decide.facts import ContainerView, Fact, Phase
from sidecar.decide.hand_facts import AnswersHeld, CpusetWritten, WriteFailed
from sidecar.decide.orders import Answers, HoldAnswers, Update, WriteCpuset
from sidecar.decide.reconcile import begin
from sidecar.decide.sightings import sighted
from sidecar.ports import HeldAnswers
from sidecar.runtime.standing import BEGUN
from state.cpuset import EMPTY, CPUSet
from state.errors import FileUnreadable
from state.model import State
from state.topology import uniform
from tests.support.decide.stories import static
from tests.support.hand.simulated_hand import SimulatedHand
from tests.support.keys import docker

POOL, MINE = CPUSet.of(0, 1), CPUSet.of(2, 3)
ONE = f"{1:064x}"


class Bench:
    """Orders to a simulated hand, below whose parent one container runs."""

    def __init__(self) -> None:
        self.world = begin(State(), uniform(cores=4), static())
        one = ContainerView(engine=docker(ONE).engine, id=ONE, name="one", phase=Phase.RUNNING)
        self.board = Board(sighted(self.world, one, 1))
        self.hand = SimulatedHand(CPUSet(range(4)))
        self.hand.make("/docker")
        self.facts: list[Fact] = []
        self.orders = HandOrders(self.board, self.facts.append, tickets=itertools.count(10).__next__)
        self.orders.use(self.hand)

    def last(self) -> Fact:
        return self.facts[-1]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_answers_are_held_at_once(bench: Bench) -> None:
    """The next birth gets them, and the outcome tells which parents are watched."""
    bench.orders.hold(HoldAnswers(7, Answers(others=POOL)))
    assert bench.last() == AnswersHeld(7, ("/docker",), EMPTY, 10)
    bench.hand.make(f"/docker/{ONE}")
    assert bench.hand.cpus(f"/docker/{ONE}") == POOL


def test_an_earlier_write_to_one_that_rests_counts_no_more_but_only_as_of_that_order(bench: Bench) -> None:
    """Its group may still be there. It may have started again, and been written, before the order is held again."""
    bench.hand.make(f"/docker/{ONE}")
    bench.orders.write(WriteCpuset(docker(ONE), 8, Update(cpus=MINE)))
    bench.orders.hold(HoldAnswers(9, Answers(others=POOL), resting=frozenset({docker(ONE)})))
    assert bench.hand.cpus(f"/docker/{ONE}") == POOL
    bench.orders.write(WriteCpuset(docker(ONE), 10, Update(cpus=MINE)))
    bench.orders.hold_again()
    assert bench.hand.cpus(f"/docker/{ONE}") == MINE


def test_a_write_is_read_back(bench: Bench) -> None:
    bench.hand.make(f"/docker/{ONE}")
    bench.orders.write(WriteCpuset(docker(ONE), 8, Update(cpus=MINE)))
    assert bench.last() == CpusetWritten(docker(ONE), 8, MINE, 10)
    assert bench.hand.cpus(f"/docker/{ONE}") == MINE


def test_a_write_to_a_container_without_a_group_says_so(bench: Bench) -> None:
    """A look explains it."""
    bench.orders.write(WriteCpuset(docker(ONE), 8, Update(cpus=MINE)))
    failed = bench.last()
    assert isinstance(failed, WriteFailed)
    assert failed.is_gone


def test_without_a_hand_a_write_fails_and_nothing_is_held(bench: Bench) -> None:
    """That there is none is a fact of its own."""
    bench.orders.use(None)
    bench.orders.hold(HoldAnswers(7, Answers(others=POOL)))
    assert bench.facts == []
    bench.orders.write(WriteCpuset(docker(ONE), 8, Update(cpus=MINE)))
    assert isinstance(bench.last(), WriteFailed)


@pytest.mark.parametrize("error", [ValueError("planted"), FileUnreadable("planted")])
def test_a_hand_that_fails_while_it_takes_answers_is_used_no_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Which it holds is not known. Nothing is told of it, and whoever follows it is."""
    lost: list[Exception] = []
    bench.orders.use(bench.hand, lost.append)
    with monkeypatch.context() as patch:
        patch.setattr(bench.hand, "hold", _raising(error))
        bench.orders.hold(HoldAnswers(7, Answers(others=POOL)))
    assert (lost, bench.facts) == ([error], [])
    bench.orders.hold(HoldAnswers(8, Answers(others=POOL)))
    assert bench.facts == []
    bench.orders.use(bench.hand, lost.append)
    bench.orders.hold(HoldAnswers(9, Answers(others=POOL)))
    assert bench.last() == AnswersHeld(9, ("/docker",), EMPTY, 10)


def _raising(error: Exception) -> Callable[..., HeldAnswers]:
    def planted(*_: object, **__: object) -> HeldAnswers:
        raise error

    return planted


@pytest.mark.trio
async def test_what_is_stuck_is_tried_again(autojump_clock: MockClock, bench: Bench, nursery: trio.Nursery) -> None:
    """Each second, under the number of the answers in force: no new decision is needed."""
    bench.hand.make(f"/docker/{ONE}")
    bench.hand._groups[f"/docker/{ONE}"].is_closed = True
    nursery.start_soon(bench.orders.keep_trying)
    bench.orders.hold(HoldAnswers(7, Answers(others=POOL)))
    stuck = bench.last()
    assert isinstance(stuck, AnswersHeld)
    assert stuck.stuck
    bench.hand._groups[f"/docker/{ONE}"].is_closed = False
    await trio.sleep(1.5 * STUCK_SECONDS)
    now = bench.last()
    assert isinstance(now, AnswersHeld)
    assert (now.number, now.stuck) == (7, EMPTY)


@pytest.mark.trio
async def test_a_start_by_an_order_tells_of_a_front(
    autojump_clock: MockClock, nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no record of one is seen. What an earlier run left tells of none: it may be gone since."""
    view = ContainerView(engine=docker(ONE).engine, id=ONE, name="pl", phase=Phase.RUNNING, runtime="mine")
    board, standing = Board(sighted(begin(State(), uniform(cores=4), static()), view, 1)), StandingOrders(str(tmp_path))
    standing.claim(EMPTY)

    def note(pid: object) -> None:
        Path(standing.folder, BEGUN, ONE).write_text(f"1 {pid} 0-1\n")

    def counted() -> Mapping[str, int] | None:
        return board.starts.around

    async def at_once(call: Callable[[], None]) -> None:
        call()

    monkeypatch.setattr(trio.to_thread, "run_sync", at_once)
    note("none")
    orders = HandOrders(board, list[Fact]().append, standing, tickets=itertools.count().__next__)
    nursery.start_soon(orders.keep_order)
    await trio.sleep(2 * ENDED_SECONDS)
    assert not standing.begun()
    assert counted() is None
    note(os.getpid())
    count = board.count
    await trio.sleep(2 * ENDED_SECONDS)
    assert counted() == {}
    assert board.count == count + 1
    standing.close()
