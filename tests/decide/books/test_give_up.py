"""A release of one container, ordered by people."""

from __future__ import annotations

import pytest

from sidecar.decide.books.give_up import obstacle
from sidecar.decide.facts import GiveUpRequested, Purpose
from sidecar.decide.settings import PolicyName
from sidecar.words.refusals import sentence
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.refusal import RefusalCode
from tests.support.decide import strictstarts
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.stories import Story, where


def test_a_released_container_shares_until_it_is_next_started() -> None:
    """Its CPUs are everybody's at once, also for those who wait; another start asks again."""
    for policy in (PolicyName.STATIC, PolicyName.DYNAMIC):
        story = Story(policy=policy)
        one, other = story.arrive("one", 2), story.arrive("other", 1)
        story.settle()
        story.feed(GiveUpRequested(one.key))
        story.settle()
        assert story.refusal(one).code is RefusalCode.GIVEN_UP
        assert story.why_refused(one) == "its exclusive CPUs were released by hand"
        assert where(one) == str(story.world.state.shared)
        assert story.granted(other) is not None
        story.end(one)
        story.again(one)
        story.settle()
        assert len(story.world.state.assignments[one.key].cpus) == 2


def test_a_waiting_container_is_not_granted_them_again_at_once() -> None:
    """Although its label says that it waits: people said otherwise."""
    story = Story()
    one = story.arrive("one", 2, labels={"cpuset.on-shortage": "wait"})
    story.settle()
    story.feed(GiveUpRequested(one.key))
    story.settle()
    assert story.granted(one) is None


def test_one_that_has_not_started_yet_asks_at_its_start() -> None:
    """Not at once: the order would have no effect."""
    story = Story()
    one = story.arrive("one", 2, starts=False)
    story.settle()
    assert story.granted(one) is not None
    story.feed(GiveUpRequested(one.key))
    story.settle()
    assert story.refusal(one).code is RefusalCode.GIVEN_UP
    story.again(one)
    story.settle()
    assert story.granted(one) is not None


@pytest.mark.parametrize("is_before", [True, False])
def test_the_time_of_a_start_tells_whether_it_is_the_next_one(is_before: bool) -> None:
    """A look shows it only after the order, whenever it was. So does a restart of the sidecar in between."""
    story = Story()
    one = story.arrive("one", 2)
    story.settle()
    story.stop(one)
    if is_before:
        story.start(one)
    story.feed(GiveUpRequested(one.key, story.stamp()))
    if not is_before:
        story.start(one)
    story.crash([True])
    story.look(one)
    story.settle()
    assert (story.granted(one) is None) == is_before
    story.end(one)
    story.again(one)
    story.settle()
    assert story.granted(one) is not None


def test_a_start_that_is_held_is_the_next_one_already() -> None:
    """It asks, so there is nothing to release before it runs, also if the order was taken before the start was held."""
    story = Dynamic()
    batch = story.elastic("batch", 2, 1, 7)
    one = story.unseen("one", 3, starts=False)
    one.asks = True
    strictstarts.hold(story, one)
    assert (story.known(one).is_held, story.granted(one), story.leaving(batch)) == (True, "5-7", "5-7")
    refusal = obstacle(story.world, one.key)
    assert refusal is not None
    assert (refusal.code, "is held" in sentence(refusal)) == (RefusalCode.START_HELD, True)
    before = story.world.state
    story.feed(GiveUpRequested(one.key, story.stamp()))
    assert story.world.state == before
    story.over(Purpose.GRACE, batch)
    story.settle()
    assert (story.known(one).is_held, story.granted(one)) == (False, "5-7")
    assert obstacle(story.world, one.key) is None


@pytest.mark.parametrize("asks", [True, False])
def test_it_keeps_its_place_in_the_queue(*, asks: bool) -> None:
    """It asked first, whether its runtime asks before its next start or not."""
    story = Story()
    one = story.arrive("one", 2)
    story.settle()
    story.end(one)
    one.asks = asks
    story.look(one)
    other = story.arrive("other", 6, labels={"cpuset.on-shortage": "wait"})
    story.feed(GiveUpRequested(one.key))
    story.settle()
    assert story.granted(other) is not None
    if asks:
        strictstarts.hold(story, one)
    else:
        story.again(one)
    story.settle()
    refused = story.world.state.refusals[one.key]
    assert (refused.refusal.code, refused.asked) == (RefusalCode.NOT_ENOUGH, 0)


def test_an_order_counts_if_the_grant_has_ended_since_it_was_taken() -> None:
    """By a reload in the same instant: people were told that it is released, so it asks at its next start."""
    story = Story()
    one = story.arrive("one", 2)
    story.settle()
    story.change_settings(reserved_cpus=story.world.state.online - CPUSet.of(7))
    assert story.granted(one) is None
    story.feed(GiveUpRequested(one.key))
    assert story.refusal(one).code is RefusalCode.GIVEN_UP
    story.change_settings()
    story.settle()
    assert story.granted(one) is None
    story.end(one)
    story.again(one)
    story.settle()
    assert story.granted(one) is not None


def test_one_without_cpus_of_its_own_has_none_to_release() -> None:
    """And an order for it has no effect."""
    story = Story()
    plain = story.arrive("plain")
    story.settle()
    refusal = obstacle(story.world, plain.key)
    assert refusal is not None
    assert sentence(refusal) == "plain has no exclusive CPUs"
    before = story.world.state
    story.feed(GiveUpRequested(plain.key), GiveUpRequested(ContainerKey("docker", "f" * 64)))
    assert story.world.state == before
    assert obstacle(story.world, ContainerKey("docker", "f" * 64)).code is RefusalCode.UNKNOWN_CONTAINER  # type: ignore[union-attr]
