"""The news of the hand: births become looks, and a hand that breaks becomes a fact."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from functools import partial

import pytest
import trio
import trio.testing

from sidecar.board import BirthCounts, Board
from sidecar.crashes import Crashes
from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.facts import ContainerView, EngineInfo, Fact, Phase
from sidecar.decide.hand_facts import BornInside, GoneInside, HandLost, HandReady, Overwritten
from sidecar.decide.hand_state import HandState
from sidecar.decide.orders import Answers, HoldAnswers
from sidecar.decide.reconcile import begin
from sidecar.decide.sightings import sighted
from sidecar.decide.world import replace
from sidecar.failures import CgroupClosed
from sidecar.lasting import LastingTasks
from sidecar.log import Log
from sidecar.observe.births import Births
from sidecar.observe.brief import Hints
from sidecar.observe.foreign_writes import CALM_SECONDS
from sidecar.observe.newcomers import Newcomers
from sidecar.ports import (
    GroupBorn,
    GroupGone,
    GroupOverwritten,
    GroupStuck,
    GroupWritten,
    Hand,
    NewsLost,
    ParentsChanged,
)
from state.cpuset import EMPTY, CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import Assignment, State
from state.topology import uniform
from tests.support.decide.contacts import with_info
from tests.support.decide.stories import static
from tests.support.hand.simulated_hand import SimulatedHand
from tests.support.keys import docker

pytestmark = pytest.mark.trio

ONE, TWO = f"{1:064x}", f"{2:064x}"


class Room:
    """The room of one engine, which notes for what looks are asked."""

    def __init__(self, nursery: trio.Nursery, board: Board, looks: list[ContainerKey]) -> None:
        self.hints = Hints(nursery, board, looks.append, Crashes(board, Log(io.StringIO())))
        self.newcomers = Newcomers(board, looks.append, lambda _: False, lambda: "docker")
        self.inventories = 0
        self.inside: list[BornInside] = []
        self.born_below: list[str] = []
        self.look = looks.append

    def key_of(self, engine: str, id: str) -> ContainerKey:
        return ContainerKey(engine, id)

    def hear(self, container: ContainerKey) -> None:
        self.hints.hear(container)

    def born(self, container: ContainerKey, below: str, *, is_answered: bool) -> None:
        self.born_below.append(below)
        if not self.newcomers.born(container, is_answered=is_answered):
            self.hints.born(container)

    def born_inside(self, birth: BornInside) -> None:
        self.inside.append(birth)

    def pinned(self, container: ContainerKey) -> None:
        self.newcomers.pinned(container)

    def look_at_newcomers(self) -> None:
        self.newcomers.look_at_all()

    def look_at_everything(self) -> None:
        self.inventories += 1


class Bench:
    """A follower of a simulated hand."""

    def __init__(self, nursery: trio.Nursery) -> None:
        world = begin(State(), uniform(cores=4), static())
        view = ContainerView(engine=docker(ONE).engine, id=ONE, name="one", phase=Phase.RUNNING)
        known = EngineInfo(name="docker", version="1", api_version="1", ncpu=4)
        self.board = Board(sighted(with_info(world, known), view, 1))
        self.hand = SimulatedHand(CPUSet(range(4)))
        self.hand.make("/docker")
        self.used: list[Hand | None] = []
        self.lose: Callable[[Exception], None] | None = None
        self.looks: list[ContainerKey] = []
        self.room = Room(nursery, self.board, self.looks)
        self.again = 0
        self.lines = io.StringIO()
        self.outbox, self.inbox = trio.open_memory_channel[Fact](100)
        self.births = Births(
            self.board,
            self.outbox,
            use=self.use,
            again=lambda: setattr(self, "again", self.again + 1),
            hearing=self.room,
            tickets=itertools.count(1).__next__,
            log=Log(self.lines),
        )

    def use(self, hand: Hand | None, lose: Callable[[Exception], None] | None = None) -> None:
        self.used.append(hand)
        self.lose = lose or self.lose

    async def next(self) -> Fact:
        with trio.fail_after(5):
            return await self.inbox.receive()

    def keep(self, nursery: trio.Nursery, open_hand: Callable[[str], Hand]) -> None:
        """Follow hands as the daemon does."""
        tasks, run = LastingTasks(self.board, Log(self.lines)), partial(self.births.run, open_hand)
        nursery.start_soon(partial(tasks.keep, "following the hand", run, then=self.births.failed))

    async def news(self) -> Fact:
        """Return the next fact, without the parents."""
        while isinstance(fact := await self.next(), HandReady):
            pass
        return fact


@pytest.fixture
def bench(nursery: trio.Nursery) -> Bench:
    return Bench(nursery)


async def test_a_hand_is_opened_for_the_engine_and_reported(bench: Bench, nursery: trio.Nursery) -> None:
    """With the parents that it watches: only then are answers made for it."""
    opened: list[str] = []

    def open_hand(engine: str) -> Hand:
        opened.append(engine)
        return bench.hand

    nursery.start_soon(bench.births.run, open_hand)
    assert isinstance(ready := await bench.next(), HandReady)
    assert (opened, ready.parents, bench.used) == (["docker"], ("/docker",), [bench.hand])


async def test_a_hand_that_cannot_be_opened_is_said_once(bench: Bench, nursery: trio.Nursery) -> None:
    """The daemon goes on without one."""

    def refuse(engine: str) -> Hand:
        raise CgroupClosed(f"the cgroups of {engine} are mounted read-only")

    nursery.start_soon(bench.births.run, refuse)
    lost = await bench.next()
    assert isinstance(lost, HandLost)
    assert lost.reason == "the cgroups of docker are mounted read-only"
    await trio.testing.wait_all_tasks_blocked()
    assert bench.lines.getvalue().count("the engine alone changes CPUs") == 1


async def test_recorded_grants_name_the_engine(bench: Bench, nursery: trio.Nursery) -> None:
    """So owners are protected before the engine answers. If it is another one, its own parents are watched."""
    demand = Demand(container=docker(ONE), name="one", cpus=1)
    state = State(
        assignments={docker(ONE): Assignment(demand=demand, cpus=CPUSet.of(1), original=CPUSet.of(1), since=1)}
    )
    bench.board.post(with_info(replace(bench.board.latest, state=state), None))
    opened: list[str] = []

    def open_hand(engine: str) -> Hand:
        opened.append(engine)
        return bench.hand

    nursery.start_soon(bench.births.run, open_hand)
    assert isinstance(await bench.next(), HandReady)
    assert opened == ["docker"]
    podman = EngineInfo(name="podman", version="5", api_version="1", ncpu=4)
    bench.board.post(with_info(bench.board.latest, podman))
    lost = await bench.news()
    assert isinstance(lost, HandLost)
    assert lost.reason == "another engine answers than before"
    await trio.testing.wait_all_tasks_blocked()
    assert opened == ["docker", "podman"]


async def test_without_recorded_grants_the_engine_is_waited_for(bench: Bench, nursery: trio.Nursery) -> None:
    """There is nothing to protect, and its parents are not known."""
    known = bench.board.latest
    bench.board.post(with_info(known, None))
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await trio.testing.wait_all_tasks_blocked()
    assert bench.used == []
    bench.board.post(known)
    assert isinstance(await bench.next(), HandReady)


async def test_a_parent_that_another_hand_watches_is_a_problem_until_it_is_free(
    bench: Bench, nursery: trio.Nursery
) -> None:
    """With the cure."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(ParentsChanged((), ("/docker",)))
    while not (isinstance(ready := await bench.next(), HandReady) and ready.taken):
        pass
    assert ready.taken == ("/docker",)
    [problem] = bench.board.problems.values()
    assert "another sidecar answers births below /docker" in problem
    assert "--cgroup-parent" in problem
    bench.hand._send.send_nowait(ParentsChanged(("/docker",)))
    await bench.next()
    assert not bench.board.problems


async def test_writes_of_containers_of_other_engines_are_no_problem(bench: Bench, nursery: trio.Nursery) -> None:
    """They are counted, and keep what they may have."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(GroupOverwritten(TWO, CPUSet.of(3), 70))
    await bench.news()
    await trio.testing.wait_all_tasks_blocked()
    assert not bench.board.problems


async def test_births_and_ends_are_hints(bench: Bench, nursery: trio.Nursery) -> None:
    """Each asks for a look, and lost news for an inventory."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand.make(f"/docker/{ONE}")
    bench.hand.remove(f"/docker/{ONE}")
    bench.hand._send.send_nowait(NewsLost())
    await trio.testing.wait_all_tasks_blocked()
    assert bench.room.born_below == ["/docker"]
    assert (bench.looks, bench.room.inventories) == ([docker(ONE)] * 2, 1)


@pytest.mark.parametrize(
    ("phase", "late", "looked"),
    [(Phase.EXITED, 0.25, True), (Phase.EXITED, 0.0, False), (Phase.RUNNING, 0.25, False)],
)
async def test_a_birth_asks_for_a_look_at_owners_that_may_be_removed(
    bench: Bench, nursery: trio.Nursery, phase: Phase, late: float, looked: bool
) -> None:
    """Those that have ended, where the engine tells of removals late: else what starts is refused for their CPUs."""
    view = ContainerView(engine="docker", id=ONE, name="one", phase=phase)
    demand = Demand(container=docker(ONE), name="one", cpus=1)
    state = State(
        assignments={docker(ONE): Assignment(demand=demand, cpus=CPUSet.of(1), original=CPUSet.of(1), since=1)}
    )
    known = EngineInfo(name="docker", version="1", api_version="1", ncpu=4, traits=EngineTraits(tells_late=late))
    bench.board.post(sighted(with_info(replace(bench.board.latest, state=state), known), view, 2))
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand.make(f"/docker/{TWO}")
    await trio.testing.wait_all_tasks_blocked()
    assert (docker(ONE) in bench.looks) is looked


async def test_a_birth_that_could_not_be_written_is_tried_again(bench: Bench, nursery: trio.Nursery) -> None:
    """What then stays is told by holding again."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(GroupStuck(f"/docker/{ONE}"))
    await trio.testing.wait_all_tasks_blocked()
    assert bench.again == 1


async def test_what_was_written_late_is_looked_at(bench: Bench, nursery: trio.Nursery) -> None:
    """Nothing else tells where it is now, and what could not be written may be possible."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    for id in (ONE, TWO, ""):
        bench.hand._send.send_nowait(GroupWritten(id))
    await trio.testing.wait_all_tasks_blocked()
    assert (bench.looks, bench.again) == ([docker(ONE)], 3)


async def test_foreign_writes_are_told(bench: Bench, nursery: trio.Nursery) -> None:
    """As a fact, and as a problem with the name of the container."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 70))
    assert await bench.news() == Overwritten(docker(ONE), CPUSet.of(3), 70)
    await trio.testing.wait_all_tasks_blocked()
    assert "70 times so far, last to CPU 3" in " ".join(bench.board.problems.values())


async def test_a_problem_of_a_container_has_its_name_and_goes_with_it(bench: Bench, nursery: trio.Nursery) -> None:
    """At once: a minute of calm is for a container that is there."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 70))
    await bench.news()
    await trio.testing.wait_all_tasks_blocked()
    world = bench.board.latest
    bench.board.post(sighted(world, replace(world.containers[docker(ONE)].view, name="two"), 2))
    assert "the cpuset of two" in " ".join(bench.board.problems.values())
    bench.board.post(bench.board.latest.without_container(docker(ONE), 3))
    assert not bench.board.problems


async def test_births_and_overwrites_are_counted(bench: Bench, nursery: trio.Nursery) -> None:
    """For metrics: those that were answered, those that were not, and each foreign write."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    bench.hand.make(f"/docker/{ONE}")
    bench.hand._send.send_nowait(GroupBorn("", "/docker/step", CPUSet.of(1), 0.0))
    bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 2))
    await trio.testing.wait_all_tasks_blocked()
    assert bench.board.births == BirthCounts(answered=1, unanswered=1, overwritten=2)
    assert not bench.board.problems, "two writes are a person's update"


async def test_a_birth_inside_an_owner_is_met_and_its_end_is_a_fact(bench: Bench, nursery: trio.Nursery) -> None:
    """It is no birth that the hand should have answered, and no hint for a look."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    path = f"/docker/{ONE}/deep/{TWO}"
    bench.hand._send.send_nowait(GroupBorn(TWO, path, None, 0.0, ONE))
    bench.hand._send.send_nowait(GroupGone(TWO, path, ONE))
    assert await bench.news() == GoneInside(docker(TWO), docker(ONE))
    [met] = bench.room.inside
    assert (met.container, met.owner, met.parent) == (docker(TWO), docker(ONE), f"/docker/{ONE}/deep")
    assert bench.board.births == BirthCounts()
    assert bench.looks == []


async def test_a_problem_of_a_container_ends_when_it_is_calm(
    bench: Bench, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """And is logged once, however often its number changes."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    for _ in range(5):
        bench.hand._send.send_nowait(GroupOverwritten(ONE, CPUSet.of(3), 70))
        await trio.sleep(1)
    assert "350 times" in " ".join(bench.board.problems.values())
    assert bench.lines.getvalue().count("another program writes the CPUs of a container") == 1
    await trio.sleep(CALM_SECONDS + 10)
    while (told := await bench.news()) != Overwritten(docker(ONE), EMPTY, 0):
        assert told == Overwritten(docker(ONE), CPUSet.of(3), 70)
    assert not bench.board.problems


async def test_groups_that_cannot_be_written_are_a_problem_as_long_as_they_are_there(
    bench: Bench, nursery: trio.Nursery
) -> None:
    """They keep owners from being alone, and no container that is known is to blame."""
    nursery.start_soon(bench.births.run, lambda engine: bench.hand)
    await bench.next()
    await trio.testing.wait_all_tasks_blocked()
    assert not bench.board.problems
    held = HoldAnswers(1, Answers(others=CPUSet.of(0)))
    hand = HandState(parents=("/docker",), held=held, stuck=CPUSet.of(3))
    bench.board.post(replace(bench.board.latest, hand=hand))
    [said] = bench.board.problems.values()
    assert said.startswith("newborn groups on CPU 3, below /docker, cannot be written, so no container is alone there")
    bench.board.post(replace(bench.board.latest, hand=replace(hand, stuck=EMPTY)))
    assert not bench.board.problems
