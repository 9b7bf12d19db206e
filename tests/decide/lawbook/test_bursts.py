"""What a burst comes to does not depend on where the machine or the settings stand in it.

Two bursts of a history are taken as one, with what tells of the machine and the settings first, and last. The books are
the same, with all their reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from sidecar.decide import step as step_module
from sidecar.decide.facts import ContainerSeen, Fact, SettingsChanged, TopologyRead
from sidecar.decide.orders import Order
from sidecar.decide.reconcile import on_machine, with_settings
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.step import step
from sidecar.decide.world import World
from state.cause import Pinned, WentOffline
from state.codec import convert
from state.cpuset import CPUSet, union
from state.model import Move
from tests.decide.long_run import history
from tests.support.decide import histories
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.histories import DYNAMIC, STATIC, Broken
from tests.support.decide.reality import Reality
from tests.support.laws import Breach, Law

ANY_ORDER: Law[Reality] = Law("the order of a burst is of no matter to its machine and settings", lambda reality: ())

HISTORIES = 60


def changes_the_machine(fact: Fact) -> bool:
    return isinstance(fact, TopologyRead | SettingsChanged)


class Reordered(Reality):
    """A Reality that breaks if a burst depends on where the machine and the settings stand in it."""

    def feed(self, *facts: Fact) -> None:
        if self.bursts and hasattr(self, "planned_from"):
            both = (*self.bursts[-1], *facts)
            last = sorted(both, key=changes_the_machine)
            first = sorted(both, key=changes_the_machine, reverse=True)
            if last != first and step(self.planned_from, first)[0].state != step(self.planned_from, last)[0].state:
                raise Broken([Breach(ANY_ORDER, str([type(fact).__name__ for fact in both]))])
        super().feed(*facts)


def play_all(seeds: Iterable[int], settings: Sequence[Settings]) -> None:
    for seed in seeds:
        history(seed, settings=settings)


@pytest.mark.parametrize("settings", [STATIC, DYNAMIC], ids=["static", "dynamic"])
def test_what_a_burst_comes_to_does_not_depend_on_its_order(
    settings: Sequence[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "Reality", Reordered)
    play_all(range(HISTORIES), settings)


def test_a_daemon_that_fits_its_books_in_the_midst_of_a_burst_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """It adapts grants to the machine before it knows what else is in the burst."""
    honest = step_module._fold

    def fold(world: World, fact: Fact) -> tuple[World, tuple[Order, ...]]:
        if isinstance(fact, TopologyRead) and fact.topology != world.topology:
            return with_settings(on_machine(world, fact.topology), world.settings), ()
        if isinstance(fact, SettingsChanged):
            return with_settings(world, convert(fact.settings, Settings)), ()
        return honest(world, fact)

    monkeypatch.setattr(step_module, "_fold", fold)
    monkeypatch.setattr(step_module, "_fitted", lambda world, facts: (world, ()))
    with pytest.raises(Broken, match=ANY_ORDER.name):
        pinned_while_a_cpu_goes(PolicyName.DYNAMIC, is_first=True)


class ReorderedStory(Reordered, Dynamic):
    """A story that breaks likewise."""


def pinned_while_a_cpu_goes(policy: PolicyName, *, is_first: bool) -> tuple[Move, ...]:
    """Return the changes of an owner, of whose CPUs one goes offline and another is pinned, in one burst."""
    story = ReorderedStory(policy=policy)
    rt = story.arrive("rt", 3)
    story.settle()
    assert story.granted(rt) == "1-3"
    story.toggle_cpu(3)
    story.begin_look(story.unseen("pinned", cpuset="2,4").key)
    look = story.looks.pop()
    assert look.view is not None
    facts = (TopologyRead(story.topology()), ContainerSeen(look.view, look.began))
    story.feed(*(facts if is_first else reversed(facts)))
    return story.grant(rt).moves


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_pin_and_a_hotplug_in_one_burst_are_told_apart(policy: PolicyName, *, is_first: bool) -> None:
    """The replacement of what went offline is no CPU to which a container is pinned, and each CPU has its reason."""
    moves = pinned_while_a_cpu_goes(policy, is_first=is_first)
    assert {str(move.lost): move.cause for move in moves if move.lost} == {
        "3": WentOffline(CPUSet.of(3)),
        "2": Pinned(CPUSet.of(2)),
    }
    assert CPUSet.of(4).isdisjoint(union(move.gained for move in moves))
