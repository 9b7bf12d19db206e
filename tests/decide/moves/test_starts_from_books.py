"""Starts while the engine cannot be reached: decided by the State, and changing nothing."""

from __future__ import annotations

from sidecar.decide.facts import ContainerView, EngineDisconnected, Phase
from sidecar.decide.moves.starts_from_books import from_books
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from sidecar.words.refusals import sentence
from tests.support.decide.stories import Story

STRANGER = "e" * 64


def view(**fields: object) -> ContainerView:
    return ContainerView(id=STRANGER, name="new", phase=Phase.CREATED, **fields)  # type: ignore[arg-type]


def test_a_container_with_a_grant_starts_on_it_without_its_quota() -> None:
    """All of them, as recorded; a quota that it does not have is not lifted."""
    story = Story()
    one = story.arrive("one", 2)
    story.settle()
    story.feed(EngineDisconnected("gone"))
    held = story.world.state.assignments[one.key].cpus
    known = replace(story.world.containers[one.key].view, cpu_quota=200_000)
    before = story.world
    answer = from_books(before, known, 10_000)
    assert answer is not None
    assert answer.update is not None
    assert (answer.update.cpus, answer.update.cpu_quota, answer.exclusive) == (held, -1, True)
    assert story.world is before
    limitless = from_books(before, replace(known, cpu_quota=0), 10_000)
    assert limitless is not None
    assert limitless.update is not None
    assert limitless.update.cpu_quota is None


def test_a_container_without_a_demand_starts_in_the_pool() -> None:
    """Without granted CPUs, whether it was known or not."""
    story = Story()
    one = story.arrive("one", 2)
    story.settle()
    answer = from_books(story.world, view(), 10_000)
    assert answer is not None
    assert answer.update is not None
    assert answer.update.cpus == story.world.state.shared
    assert answer.update.cpus.isdisjoint(story.world.state.assignments[one.key].cpus)
    assert not answer.exclusive


def test_an_unmanaged_container_is_let_go() -> None:
    """The bundle stays as it is; so it does under no policy at all."""
    for story, one in ((Story(), view(labels={"cpuset.manage": "off"})), (Story(policy=PolicyName.NONE), view())):
        answer = from_books(story.world, one, 10_000)
        assert answer is not None
        assert (answer.update, answer.refusal) == (None, None)


def test_a_demand_without_a_grant_waits() -> None:
    """They would have to be taken from containers that cannot be moved now."""
    assert from_books(Story().world, view(labels={"cpuset.exclusive": "1"}), 10_000) is None


def test_wrong_labels_are_refused_as_with_the_engine() -> None:
    """What the labels say needs no engine: a start in the shared pool would be what strict excludes."""
    strict = view(labels={"cpuset.exclusiv": "1"}, runtime="cpuset")
    answer = from_books(Story().world, strict, 10_000)
    assert answer is not None
    assert answer.update is None
    assert answer.refusal is not None
    assert sentence(answer.refusal) == "unknown label 'cpuset.exclusiv'; did you mean 'cpuset.exclusive'?"
