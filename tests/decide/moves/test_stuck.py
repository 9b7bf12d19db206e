"""Containers that cannot be moved, because their locks are held: an arrival gets CPUs without them."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import OrderDelayed
from sidecar.decide.placement.options import FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION
from sidecar.decide.world import World
from state.cpuset import EMPTY
from state.topology import uniform
from tests.support.decide.stories import Story, cpus


def test_an_arrival_gets_cpus_where_nothing_is_stuck() -> None:
    """While there are such CPUs. Beside a stuck container it is granted CPUs too, and is not settled."""
    story = Story(uniform(cores=8))
    stuck, first, second = story.arrive("stuck"), story.arrive("first", 2), story.arrive("second", 2)
    story.settle()
    story.away(first)
    late = next(order for order in story.flight if order.container == stuck.key)
    assert str(late.update.cpus) == "0-2,5-7"
    story.feed(OrderDelayed(late.container, late.number))
    assert str(story.world.stuck_beside(second.key)) == "0-2,5-7"
    assert not story.world.stuck_beside(stuck.key), "it does not avoid itself"
    story.away(second)
    assert story.granted(third := story.arrive("third", 2)) == "3-4"
    assert story.granted(fourth := story.arrive("fourth", 2)) == "1-2"
    while others := [at for at, order in enumerate(story.flight) if order.container != stuck.key]:
        story.deliver(others[0], "ok")
        while story.looks:
            story.deliver_look(0)
    assert story.is_settled(third)
    assert not story.is_settled(fourth)


@pytest.mark.parametrize("stuck", ["", "5"])
def test_what_is_stuck_does_not_decide_how_many_an_arrival_gets(stuck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets other CPUs beside it than after a restart, and as many: what is refused beside it is refused without it.
    Of the CPUs 2, 4 and 5 the pool keeps a whole core, which the best two leave it none of.
    """
    monkeypatch.setattr(World, "stuck_beside", lambda *_: cpus(stuck) if stuck else EMPTY)
    story = Story(uniform(cores=4, threads=2), options=(FULL_PCPUS_ONLY, STRICT_CPU_RESERVATION))
    story.hotplug(1, 3, 6, 7)
    arrival = story.arrive("arrival", 2, labels={"cpuset.options": "efficient"})
    assert story.granted(arrival) is None
