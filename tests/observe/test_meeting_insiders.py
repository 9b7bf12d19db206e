"""Whether a birth inside an owner's group is told: at once if it is known, else if its engine does not deny it."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from sidecar.board import Board
from sidecar.crashes import Crashes
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.hand_facts import BornInside
from sidecar.decide.reconcile import begin
from sidecar.failures import ContainerGone, EngineSilent
from sidecar.log import Log
from sidecar.observe.meeting_insiders import ASK_SECONDS, MOST_ASKED, MeetingInsiders
from state.key import ContainerKey
from state.model import State
from state.topology import uniform
from tests.support.decide.stories import static
from tests.support.keys import docker

pytestmark = pytest.mark.trio

NEW, OWNER = docker("a" * 64), docker("b" * 64)
Glance = Callable[[str], Awaitable[ContainerView]]


async def knows(id: str) -> ContainerView:
    return ContainerView(engine="podman", id=id, name="new", phase=Phase.CREATED)


async def denies(id: str) -> ContainerView:
    raise ContainerGone("no such container")


async def is_silent(id: str) -> ContainerView:
    raise EngineSilent("no answer")


async def fails(id: str) -> ContainerView:
    raise KeyError(id)


async def hangs(id: str) -> ContainerView:
    await trio.sleep_forever()
    raise AssertionError


class Bench:
    """What is told, and when."""

    def __init__(self, nursery: trio.Nursery, glance: Glance, *, engines: tuple[str, ...] = ()) -> None:
        self.told: list[tuple[ContainerKey, float]] = []
        self.known: set[ContainerKey] = set()
        self._began = trio.current_time()
        board = Board(begin(State(), uniform(cores=4), static()))
        self.meeting = MeetingInsiders(
            nursery,
            Crashes(board, Log(io.StringIO())),
            is_known=self.known.__contains__,
            glance=glance,
            tell=lambda birth: self.told.append((birth.container, round(trio.current_time() - self._began, 3))),
            engines=engines,
        )

    async def meet(self, key: ContainerKey = NEW) -> None:
        self.meeting.meet(BornInside(key, OWNER, "/docker/b", 1))
        await trio.sleep(1)


async def test_one_that_is_known_is_told_without_a_question(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    bench = Bench(nursery, hangs)
    bench.known.add(NEW)
    await bench.meet()
    assert bench.told == [(NEW, 0.0)]


async def test_what_the_engine_does_not_know_is_the_owners_own(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """An engine inside the owner takes nothing from it."""
    bench = Bench(nursery, denies)
    await bench.meet()
    assert bench.told == []


@pytest.mark.parametrize(("glance", "seconds"), [(knows, 0.0), (is_silent, 0.0), (fails, 0.0), (hangs, ASK_SECONDS)])
async def test_what_it_does_not_deny_is_told(
    autojump_clock: MockClock, nursery: trio.Nursery, glance: Glance, seconds: float
) -> None:
    """Whatever becomes of the question, and soon: the program begins some milliseconds after the birth."""
    bench = Bench(nursery, glance)
    await bench.meet()
    assert [(key.id, at) for key, at in bench.told] == [(NEW.id, seconds)]


async def test_of_several_engines_the_one_that_knows_it_is_told(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """If none answers, it may be any one's: each is looked at, and each says of its own."""
    nameless = ContainerKey("", NEW.id)
    bench = Bench(nursery, knows, engines=("docker", "podman"))
    await bench.meet(nameless)
    assert bench.told == [(ContainerKey("podman", NEW.id), 0.0)]
    bench = Bench(nursery, hangs, engines=("docker", "podman"))
    await bench.meet(nameless)
    assert [key.engine for key, _ in bench.told] == ["docker", "podman"]


async def test_questions_are_bounded(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """A workload that makes groups without end asks for no more than so many answers at once."""
    asked: list[str] = []

    async def counts(id: str) -> ContainerView:
        asked.append(id)
        return await hangs(id)

    bench = Bench(nursery, counts)
    for number in range(MOST_ASKED + 5):
        bench.meeting.meet(BornInside(docker(f"{number:064x}"), OWNER, "/docker/b", 1))
    assert len(bench.told) == 5
    await trio.sleep(1)
    assert len(asked) == MOST_ASKED
    assert len(bench.told) == MOST_ASKED + 5
    await bench.meet()
    assert len(asked) == MOST_ASKED + 1
