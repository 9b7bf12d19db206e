"""The least change of a size: a floor needs none, and takes its CPUs from the richest."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import pytest

from sidecar.decide.books import sizes
from sidecar.decide.books.arrivals import Arrivals
from sidecar.decide.books.fair import Claim
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import State
from state.topology import uniform
from tests.decide.lawbook.corelaws import idle_though_wanted
from tests.decide.lawbook.takelaws import taken_from_the_poorer
from tests.support.decide import stories
from tests.support.decide.real import Real
from tests.support.decide.stories import Story


def size_of(story: Story, real: Real) -> int:
    return len(CPUSet.parse(story.granted(real) or ""))


def calmed(story: Story) -> None:
    """Let everything come to rest, and every grace and cooldown end."""
    story.settle()
    while story.timers:
        story.time_out(0)
        story.settle()


def crowded(seed: int) -> Story:
    """Return a host after the arrivals of some elastic containers and of some that need one CPU. Each step keeps the
    laws.
    """
    rng = random.Random(seed)
    story = Story(uniform(cores=16), policy=PolicyName.DYNAMIC, min_change=rng.randint(1, 6))
    for number in range(rng.randint(2, 4)):
        labels = {"cpuset.max": str(rng.randint(4, 15)), "cpuset.weight": str(rng.choice((10, 10, 20, 30)))}
        story.arrive(f"elastic-{number}", rng.randint(1, 2), labels=labels)
        calmed(story)
    for number in range(rng.randint(2, 6)):
        story.arrive(f"fixed-{number}", 1)
        calmed(story)
    return story


def test_arrivals_take_from_the_richer_though_each_takes_less_than_the_least_change() -> None:
    story = Story(uniform(cores=16), policy=PolicyName.DYNAMIC, min_change=4)
    first = story.arrive("first", 1, labels={"cpuset.max": "15"})
    calmed(story)
    second = story.arrive("second", 1, labels={"cpuset.max": "15"})
    calmed(story)
    assert (size_of(story, first), size_of(story, second)) == (8, 7)
    found = []
    for number in range(6):
        story.arrive(f"fixed-{number}", 1)
        calmed(story)
        found.append((size_of(story, first), size_of(story, second)))
    assert found == [(7, 7), (7, 6), (6, 6), (6, 5), (5, 5), (5, 4)]


@pytest.mark.parametrize("seed", range(12))
def test_no_arrival_takes_from_the_poorer(seed: int) -> None:
    """The laws are checked after every step, this one among them."""
    story = crowded(seed)
    assert len(story.world.state.assignments) >= 2


def changing(seed: int) -> Story:
    """Return a host after containers of whole cores and of single CPUs came and went, and nothing was left idle."""
    rng = random.Random(seed)
    machine = uniform(cores=rng.choice((4, 5, 6)), threads=2)
    story = Story(machine, policy=PolicyName.DYNAMIC, min_change=rng.choice((2, 3)))
    there: list[Real] = []
    for number in range(10):
        if there and rng.random() < 0.4:
            story.away(there.pop(rng.randrange(len(there))))
        else:
            wanted = rng.randint(1, 4)
            labels = {"cpuset.min": str(rng.randint(1, wanted)), "cpuset.max": str(rng.choice((wanted, 16)))}
            labels |= {"cpuset.options": "full-pcpus-only"} if rng.random() < 0.4 else {}
            there.append(story.arrive(f"one-{number}", wanted, labels=labels))
        calmed(story)
        assert idle_though_wanted(story) == []
    return story


@pytest.mark.parametrize("seed", [*range(6), 102, 142, 178, 231])
def test_the_least_change_keeps_no_cpu_idle(seed: int) -> None:
    """A container of whole cores may lack a core of which one CPU is free. The other one is less than the least change,
    so its holder keeps that, and grows onto the free one, which no other can use.
    """
    assert changing(seed).world.settings.min_change > 1


@pytest.mark.parametrize("seed", [102, 142, 178, 231])
def test_that_law_catches_a_size_that_is_kept_both_ways(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: what is not shrunk does not grow either."""

    def pinned(state: State, claim: Claim) -> Claim:
        now = len(state.assignments[claim.key].cpus)
        return replace(claim, lowest=now, highest=now)

    monkeypatch.setattr(sizes, "_pinned", pinned)
    with pytest.raises(AssertionError, match="could gain"):
        changing(seed)


def test_that_law_catches_an_arrival_that_takes_from_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the newest gives up all that an arrival needs."""

    def trials(search: Arrivals, state: State, demand: Demand) -> Iterator[tuple[int, Mapping[ContainerKey, int]]]:
        newest = max(state.assignments.values(), key=lambda each: each.since)
        yield 1, {newest.container: newest.demand.floor}

    story = Story(uniform(cores=16), policy=PolicyName.DYNAMIC, min_change=4)
    for name in ("first", "second"):
        story.arrive(name, 1, labels={"cpuset.max": "15"})
        calmed(story)
    monkeypatch.setattr(Arrivals, "_trials", trials)
    monkeypatch.setattr(stories, "breaches", lambda laws, reality, when: [])
    story.arrive("third", 1, starts=False)
    assert taken_from_the_poorer(story) != []
