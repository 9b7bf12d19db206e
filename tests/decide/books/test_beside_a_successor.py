"""A container that waits beside a successor: it is told which containers hold the CPUs, and that none overtook it."""

from __future__ import annotations

from sidecar.decide.books.queue import overtakers
from state.topology import uniform
from tests.support.decide.stories import Story, compose


def test_a_waiter_is_told_of_the_successor_and_is_not_overtaken_by_it() -> None:
    """The same is true while the CPUs are kept for the successor."""
    story = Story(uniform(cores=2))
    first = story.arrive("web-1", 1, labels=compose())
    story.settle()
    thief = story.arrive("thief", 1, labels={"cpuset.on-shortage": "wait"})
    story.settle()
    assert story.why_refused(thief).endswith("(1 reserved: 0; 1 held by web-1)")
    story.away(first)
    assert story.why_refused(thief).endswith("(1 reserved: 0; 1 held by web-1)")
    second = story.arrive("web-2", 1, labels=compose())
    story.settle()
    assert story.granted(second) == "1"
    assert story.why_refused(thief).endswith("(1 reserved: 0; 1 held by web-2)")
    assert overtakers(story.world.state, story.world.state.refusals[thief.key]) == ()
