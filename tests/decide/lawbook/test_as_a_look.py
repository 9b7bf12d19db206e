"""What a runtime's question shows of a container that the sidecar does not place means the same as a look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import ContainerSeen, Fact, StartHeld
from sidecar.decide.moves import starts
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from sidecar.decide.world import World
from sidecar.words.explanations import explanation
from state.cpuset import CPUSet
from state.key import ContainerKey
from tests.decide.long_run import history
from tests.support.decide import histories, strictstarts
from tests.support.decide.histories import DYNAMIC, STATIC, Broken
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality
from tests.support.decide.stories import Story
from tests.support.laws import Breach, Law

AS_A_LOOK: Law[Reality] = Law("a pin means the same in a look and in what a runtime asks", lambda reality: ())

HISTORIES = 60


def pinned(world: World, key: ContainerKey) -> object:
    """Return what a container that is left alone means to others; "" for one that is placed."""
    known = world.containers[key]
    if known.wish.standing in (Standing.MANAGED, Standing.MEMBER):
        return ""
    return known.wish.standing, str(world.strangers), known.place.configured


class Compared(Reality):
    """A Reality that breaks if a held start is taken otherwise than a look at the same moment and the same start."""

    def feed(self, *facts: Fact) -> None:
        for fact in facts:
            known = self.world.containers.get(fact.view.key) if isinstance(fact, StartHeld) else None
            if isinstance(fact, StartHeld) and known is not None and not known.view.is_glance:
                key = fact.view.key
                look = ContainerSeen(self.containers[key].view(), fact.began)
                heard, seen = (step(self.world, burst)[0] for burst in ((fact,), (look, fact)))
                if pinned(heard, key) != pinned(seen, key):
                    raise Broken([Breach(AS_A_LOOK, f"{pinned(heard, key)}, and by a look {pinned(seen, key)}")])
        super().feed(*facts)


def play_all(seeds: Iterable[int], settings: Sequence[Settings]) -> None:
    for seed in seeds:
        history(seed, settings=settings)


@pytest.mark.parametrize("settings", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_a_pin_that_a_runtime_tells_is_as_one_that_was_looked_at(
    settings: Sequence[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "Reality", Compared)
    play_all(range(HISTORIES), settings)


def test_a_daemon_that_does_not_read_the_bundle_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows of the pin when the start is over."""

    def unread(world: World, known: Container, bundle: object) -> object:
        return known.view

    monkeypatch.setattr(starts, "with_bundle", unread)
    with pytest.raises(Broken, match=AS_A_LOOK.name):
        pinned_before_its_start(PolicyName.STATIC)


class ComparedStory(Compared, Story):
    """A story that breaks likewise."""


def pinned_before_its_start(policy: PolicyName) -> tuple[Story, Real, Real]:
    """Return the host of an owner, and of a container that was pinned to its CPU while it rested, before its start."""
    story = ComparedStory(policy=policy)
    rt = story.arrive("rt", 2)
    stranger = story.arrive("stranger", cpuset="7", starts=False)
    story.settle()
    assert story.granted(rt) == "1-2"
    story.tamper(stranger, CPUSet.of(2))
    strictstarts.hold(story, stranger)
    return story, rt, stranger


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_an_owner_leaves_what_a_stranger_was_pinned_to_before_its_strict_start(policy: PolicyName) -> None:
    """It was pinned elsewhere while it rested, and its start came before a look."""
    story, rt, stranger = pinned_before_its_start(policy)
    assert story.granted(rt) == "1,3"
    said = explanation(story.world, story.known(stranger), None, None, None)
    assert any("pinned by hand to CPU 2" in each for each in said)
