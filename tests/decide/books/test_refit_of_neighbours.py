"""A running neighbour keeps its CPUs while another grant is fitted to a machine that lost some."""

from __future__ import annotations

from state.refusal import RefusalCode
from state.topology import uniform
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, cpus

SINGLE = {"cpuset.numa": "single"}
WHOLE = {"cpuset.options": "full-pcpus-only"}


def granted(story: Story, *reals: Real) -> list[str | None]:
    return [story.granted(each) for each in reals]


def test_free_cpus_of_another_node_come_before_a_neighbours() -> None:
    """An older container with one node leaves what it keeps, and a newer one beside it keeps all."""
    story = Story(uniform(nodes=2, cores=7))
    bound, free = story.arrive("bound", 2, labels=SINGLE), story.arrive("free", 4)
    story.settle()
    assert granted(story, bound, free) == ["1-2", "3-6"]
    story.hotplug(2)
    assert granted(story, bound, free) == ["7-8", "3-6"]


def test_a_numa_rule_that_free_cpus_cannot_meet_moves_no_neighbour() -> None:
    """Two CPUs are free, each on a node of its own: the container with the rule shares, and is told why."""
    story = Story(uniform(nodes=2, cores=4))
    bound, free = story.arrive("bound", 2, labels=SINGLE), story.arrive("free", 2)
    story.settle()
    assert granted(story, bound, free) == ["1-2", "3-4"]
    story.hotplug(1, 5, 7)
    assert granted(story, bound, free) == [None, "3-4"]
    assert story.refusal(bound).code is RefusalCode.CPUS_LOST
    story.hotplug(5)
    assert granted(story, bound, free) == ["5-6", "3-4"]


def test_what_a_grant_leaves_that_ends_anyway_comes_before_a_neighbours() -> None:
    """The second no longer fits: its CPUs complete the first, and the newest keeps its own."""
    story = Story(uniform(cores=8))
    first, second, newest = story.arrive("first", 1), story.arrive("second", 4), story.arrive("newest", 1)
    story.settle()
    assert granted(story, first, second, newest) == ["1", "2-5", "6"]
    story.hotplug(1, 3, 7)
    assert granted(story, first, second, newest) == ["2", None, "6"]


def test_only_the_newest_that_do_not_fit_end() -> None:
    """One CPU is missing in all: the newest grant ends, and the others are completed from what it had."""
    story = Story(uniform(cores=7))
    reals = [story.arrive(name, 2) for name in ("first", "second", "newest")]
    story.settle()
    assert granted(story, *reals) == ["1-2", "3-4", "5-6"]
    story.hotplug(1)
    assert granted(story, *reals) == ["2,5", "3-4", None]


def test_floors_of_whole_cores_fit_only_on_whole_cores() -> None:
    """Cores 0,4 1,5 2,6 3,7, CPU 0 reserved. For three floors of a core two are left: the newest ends beside CPU 4."""
    story = Story(uniform(cores=4, threads=2), reserved_cpus=cpus("0"))
    reals = [story.arrive(name, 2, labels=WHOLE) for name in ("first", "second", "newest")]
    story.settle()
    assert granted(story, *reals) == ["1,5", "2,6", "3,7"]
    story.hotplug(5)
    assert granted(story, *reals) == ["3,7", "2,6", None]


def test_a_floor_that_fits_only_if_a_neighbour_moves_ends_itself() -> None:
    """The newest could lie on single CPUs: all floors fit, and none is touched for the rules of another container."""
    story = Story(uniform(cores=4, threads=2), reserved_cpus=cpus("0"))
    whole = [story.arrive(name, 2, labels=WHOLE) for name in ("first", "second")]
    plain = story.arrive("plain", 2)
    story.settle()
    assert granted(story, *whole, plain) == ["1,5", "2,6", "3,7"]
    story.hotplug(5)
    assert granted(story, *whole, plain) == [None, "2,6", "3,7"]
