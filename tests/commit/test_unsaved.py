"""What may be saved later: what any look shows again, and nothing on which an order depends."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sidecar.commit.unsaved import may_be_saved_later
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    EngineConnected,
    InventoryTaken,
    Phase,
    StartHeld,
)
from sidecar.decide.orders import AnswerStart, ApplyCpuset, LookAgain, Update
from sidecar.decide.reconcile import begin
from sidecar.decide.step import step
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import Originals, State
from state.topology import uniform
from tests.support.decide.stories import Story, static
from tests.test_allocator import INFO

NEW, OLD = ContainerKey("docker", "a" * 64), ContainerKey("docker", "b" * 64)


def seen(key: ContainerKey, **labels: str) -> ContainerView:
    return ContainerView(
        engine=key.engine, id=key.id, name=key.id[:1], phase=Phase.RUNNING, effective=CPUSet(range(4)), labels=labels
    )


def ready() -> World:
    """Return a world with one container."""
    world = begin(State(), uniform(cores=4), static())
    return step(world, [EngineConnected(INFO, 1), InventoryTaken((seen(OLD),), (), 2)])[0]


def with_new(world: World, labels: Mapping[str, str] | None = None, *, is_young: bool = True) -> World:
    """Return the world with a newcomer that the hand covers, as if it had one."""
    world = step(world, [ContainerSeen(seen(NEW, **(labels or {})), 3)])[0]
    return world.with_container(replace(world.containers[NEW], is_young=is_young, is_covered=True))


def test_a_plain_newcomer_is_saved_later() -> None:
    world = ready()
    assert may_be_saved_later(world.state, with_new(world), [LookAgain(NEW)])


def test_one_that_has_lasted_is_saved_at_once() -> None:
    """A later change by another tool is drift, also after a restart."""
    world = ready()
    assert not may_be_saved_later(world.state, with_new(world, is_young=False), [])


def test_one_that_is_gone_is_forgotten_later() -> None:
    world = with_new(ready())
    assert may_be_saved_later(world.state, step(world, [ContainerRemoved(NEW, 9)])[0], [])


def test_a_grant_is_saved_at_once() -> None:
    world = ready()
    assert not may_be_saved_later(world.state, with_new(world, {"cpuset.exclusive": "1"}), [])


def test_the_end_of_a_rest_is_saved_later() -> None:
    """A look at what runs shows it. At rest it is a promise, and so is everything else of a grant."""
    story = Story()
    owner = story.arrive("owner", 2, starts=False)
    resting = story.world
    assert resting.state.assignments[owner.key].rest is not None
    story.start(owner)
    story.look(owner)
    running = story.world
    assert running.state.assignments[owner.key].rest is None
    assert may_be_saved_later(resting.state, running)
    assert not may_be_saved_later(running.state, resting)
    grown = replace(running.state.assignments[owner.key], forced=1)
    assert not may_be_saved_later(resting.state, replace(running, state=running.state.holding(grown)))
    glance = replace(running.containers[owner.key].view, is_glance=True)
    unsure = running.with_container(replace(running.containers[owner.key], view=glance))
    assert not may_be_saved_later(resting.state, unsure)


def test_an_order_to_the_engine_waits_for_the_disk() -> None:
    world = ready()
    order = ApplyCpuset(NEW, 1, Update(cpus=CPUSet.of(0)), live=True)
    assert not may_be_saved_later(world.state, with_new(world), [order])


def test_a_start_is_answered_without_the_disk_if_the_books_have_its_originals() -> None:
    world = ready()
    newer = with_new(world)
    assert may_be_saved_later(world.state, newer, [AnswerStart(OLD, 1)])
    assert not may_be_saved_later(world.state, newer, [AnswerStart(NEW, 1)])


def test_a_rest_is_over_once_its_end_is_held() -> None:
    story = Story()
    owner = story.arrive("owner", 2, starts=False)
    resting = story.world
    held = msgspec.structs.replace(owner.view(), runtime="cpuset", is_glance=True)
    answered, orders = step(resting, [StartHeld(held, 1, story.ticket())])
    assert answered.state.assignments[owner.key].rest is None
    assert may_be_saved_later(resting.state, answered, [each for each in orders if isinstance(each, AnswerStart)])


def test_originals_that_no_look_shows_are_saved_at_once() -> None:
    """Those of a container that was changed since, and those that a container that is there has back."""
    world, other = ready(), Originals(cpuset="1")
    changed = replace(world, state=replace(world.state, originals={**world.state.originals, OLD: other}))
    restored = replace(world, state=replace(world.state, originals={}))
    unlike = with_new(world)
    unlike = replace(unlike, state=replace(unlike.state, originals={**unlike.state.originals, NEW: other}))
    for each in (changed, restored, unlike):
        assert not may_be_saved_later(world.state, each, [])
