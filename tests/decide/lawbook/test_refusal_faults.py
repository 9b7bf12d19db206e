"""The State is written only if something changed: not because a container's wanted CPUs have another holder now.

A waiting container is refused again in every decision, and its refusal names its neighbours. The law is checked on
examples and on random histories, and a daemon without the rule is caught.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pytest

from sidecar.decide.books import dynamic, static
from sidecar.decide.facts import Fact, StartHeld
from sidecar.decide.settings import PolicyName, Settings
from state.model import Refused, State
from state.refusal import TooFew
from tests.decide.long_run import history
from tests.support.decide import histories
from tests.support.decide.histories import DYNAMIC, STATIC, Broken
from tests.support.decide.reality import Reality
from tests.support.decide.stories import Story, cpus
from tests.support.laws import Breach, Law

HISTORIES = 100
"""How many are played of each kind."""

WAITS = {"cpuset.on-shortage": "wait"}


def needless(before: State, after: State) -> bool:
    """Return whether a new State was made although only the holders of refused CPUs differ."""
    if after is before or after.refusals.keys() != before.refusals.keys() or after.refusals is before.refusals:
        return False
    is_alike = all(is_like(refused, before.refusals[id]) for id, refused in after.refusals.items())
    return is_alike and all(
        getattr(after, field) == getattr(before, field) for field in State.__struct_fields__ if field != "refusals"
    )


def is_like(one: Refused, other: Refused) -> bool:
    return (one.container, one.name, one.demand, one.started_at) == (
        other.container,
        other.name,
        other.demand,
        other.started_at,
    ) and (one.refusal.is_like(other.refusal))


CALM: Final[Law[Reality]] = Law("books are not written for somebody else's sake", lambda reality: ())


class Watched(Reality):
    """A Reality that breaks if the State is written needlessly. A held start asks again, so its refusal may recur."""

    def feed(self, *facts: Fact) -> None:
        before = self.world.state if hasattr(self, "world") else None
        super().feed(*facts)
        is_asked = any(isinstance(fact, StartHeld) for fact in facts)
        if before is not None and not is_asked and not self.world.is_releasing and needless(before, self.world.state):
            raise Broken([Breach(CALM, "they were")])


def the_second_on_one_cpu(policy: PolicyName) -> tuple[State, State]:
    """Return the State before and after a second container comes that is pinned to the same CPU: only the first takes
    it away from a waiting one.
    """
    story = Story(policy=policy)
    story.arrive("first", 3)
    waiting = story.arrive("waiting", 5, labels=WAITS)
    story.arrive("pinned", cpuset="7")
    story.settle()
    before = story.world.state
    assert "1 in use by containers pinned by hand: pinned" in story.why_refused(waiting)
    story.arrive("another", cpuset="7")
    return before, story.world.state


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_an_arrival_that_takes_nothing_from_it_leaves_the_books_as_they_are(policy: PolicyName) -> None:
    before, after = the_second_on_one_cpu(policy)
    assert not needless(before, after)
    assert after.refusals is before.refusals


def test_an_arrival_that_takes_something_from_it_is_recorded() -> None:
    """The free CPUs are part of the reason for the refusal."""
    story = Story()
    story.arrive("first", 1)
    waiting = story.arrive("waiting", 7, labels=WAITS)
    story.arrive("pinned", cpuset="7")
    story.settle()
    detail = story.refusal(waiting).detail
    assert isinstance(detail, TooFew)
    assert [part.cpus for part in detail.free] == [cpus("2-6")]


@pytest.mark.parametrize("settings", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_no_history_writes_books_for_another_containers_sake(
    settings: Sequence[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "Reality", Watched)
    play_all(range(HISTORIES), settings)


@pytest.mark.parametrize(
    ("module", "policy", "settings", "seed"),
    [(static, PolicyName.STATIC, STATIC, 880), (dynamic, PolicyName.DYNAMIC, DYNAMIC, 5749)],
)
def test_a_daemon_that_writes_every_refusal_again_is_caught(
    module: object, policy: PolicyName, settings: Sequence[Settings], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the example, and by the history of this seed or one of the next."""
    monkeypatch.setattr(module, "unless_only_told_anew", lambda before, after: after)
    assert needless(*the_second_on_one_cpu(policy))
    monkeypatch.setattr(histories, "Reality", Watched)
    with pytest.raises(Broken, match=CALM.name):
        play_all(range(seed, seed + 1000), settings)


def play_all(seeds: Iterable[int], settings: Sequence[Settings]) -> None:
    """Play the histories of these seeds."""
    for seed in seeds:
        history(seed, settings=settings)
