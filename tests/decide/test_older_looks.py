"""A look from before the hand let a container go, or was lost, is believed, and ends no doubt about what came after."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.decide.covering import after_hand
from sidecar.decide.facts import ContainerSeen, ContainerView, Phase
from sidecar.decide.hand_facts import AnswersHeld, HandLost
from sidecar.decide.hand_state import HandState
from sidecar.decide.orders import Answers, HoldAnswers, LookAgain
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.sightings import sighted
from sidecar.decide.step import step
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import State
from state.topology import uniform

KEY = ContainerKey("docker", "a" * 64)
POOL, OTHER = CPUSet.of(0, 1), CPUSet.of(2)
SINCE = 10


def _let_go(world: World) -> World:
    """Return the world after the hand, which answered all births, let everything go at ticket 20."""
    assert world.hand
    sent = replace(world, hand=replace(world.hand, sent=HoldAnswers(2, Answers())))
    return after_hand(sent, AnswersHeld(2, ("/docker",), CPUSet(), 20))[0]


_RUNNING = ContainerView(engine="docker", id=KEY.id, name="c", phase=Phase.RUNNING, cpuset="2", effective=POOL)


def _answering() -> World:
    """Return a world whose hand answers all births, and has an answer for this container."""
    held = HoldAnswers(1, Answers(others=POOL, own={KEY: POOL}))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    return replace(world, hand=HandState(parents=("/docker",), since=SINCE, held=held))


def _lose(world: World) -> World:
    return after_hand(world, HandLost("it is gone", 20))[0]


@pytest.mark.parametrize("end", [_let_go, _lose])
def test_a_first_look_from_before_the_end_of_the_answers_is_outdated(end: Callable[[World], World]) -> None:
    """It shows a container where the hand had put it, and nothing keeps it there."""
    world = end(_answering())
    assert sighted(world, _RUNNING, 19) is world
    assert sighted(world, _RUNNING, 21).containers[KEY].place.seen == POOL


@pytest.mark.parametrize("end", [_let_go, _lose])
def test_a_look_from_before_the_end_of_the_answers_is_believed_and_ends_no_doubt(end: Callable[[World], World]) -> None:
    """It shows that the container started since its last look, and what the engine has configured; not where the hand
    has put it since. So a fresh look is due.
    """
    held = replace(_RUNNING, phase=Phase.CREATED, effective=None)
    world = end(sighted(_answering(), held, SINCE + 1))
    seen, orders = step(world, [ContainerSeen(_RUNNING, 19)])
    known = seen.containers[KEY]
    assert (known.view.phase, known.place.configured, known.looked) == (Phase.RUNNING, OTHER, 19)
    assert CPUSet.from_mask(known.footprint) == POOL | OTHER
    assert known.pulled == POOL
    assert LookAgain(KEY) in orders
    later, orders = step(seen, [ContainerSeen(replace(_RUNNING, effective=OTHER), 21)])
    assert CPUSet.from_mask(later.containers[KEY].footprint) == OTHER
    assert LookAgain(KEY) not in orders
