"""Containers that cannot be moved, because their locks are held: an arrival gets CPUs without them."""

from __future__ import annotations

from sidecar.decide.facts import OrderDelayed
from state.topology import uniform
from tests.support.decide.stories import Story


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
