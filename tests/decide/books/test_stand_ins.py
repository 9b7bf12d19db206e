"""CPUs that stand in for reserved ones that are offline: free ones first, originals last, and only while they must."""

from __future__ import annotations

import pytest

from sidecar.decide.settings import PolicyName
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.decide.stories import Story, where

BY_CORES = ("full-pcpus-only",)


def count(cpus: int) -> dict[str, object]:
    """Return the settings that reserve so many CPUs, in place of a list."""
    return {"reserved_cpus": CPUSet(), "reserved_count": cpus}


def test_no_half_core_stays_beside_the_shared_pool_once_the_cpu_is_back() -> None:
    """What stands in takes its whole core with it, and the core comes back whole."""
    story = Story(uniform(cores=4, threads=2), policy=PolicyName.DYNAMIC, options=BY_CORES, **count(2))
    plain, batch = story.arrive("plain"), story.arrive("batch", 2, labels={"cpuset.max": "6"})
    story.settle()
    assert story.granted(batch) == "1-3,5-7"
    story.hotplug(0)
    assert (str(story.world.state.reserved), story.granted(batch)) == ("2,4", "1,3,5,7")
    story.hotplug(0)
    assert (str(story.world.state.reserved), story.granted(batch)) == ("0,4", "1-3,5-7")
    assert (where(plain), story.is_settled(batch)) == ("0,4", True)


def test_a_grant_that_ended_for_a_stand_in_comes_back() -> None:
    """Under `static` every CPU is an original: the newest grant gives way, and the elder one does not move."""
    story = Story(uniform(cores=3, threads=2), options=BY_CORES, **count(2))
    first, second = story.arrive("first", 2), story.arrive("second", 2)
    story.settle()
    story.hotplug(0)
    assert (story.granted(first), story.granted(second)) == ("1,4", None)
    story.hotplug(0)
    assert (story.granted(first), story.granted(second)) == ("1,4", "2,5")
    assert str(story.world.state.reserved) == "0,3"


@pytest.mark.parametrize(("reserved", "fewer"), [(count(2), "2-6"), ({"reserved_cpus": CPUSet.of(0)}, "1-6")], ids=str)
def test_a_stand_in_is_what_was_gained_last(reserved: dict[str, object], fewer: str) -> None:
    """An elastic container keeps its original CPUs, whether a count or a list went offline."""
    story = Story(uniform(cores=8), policy=PolicyName.DYNAMIC, **reserved)
    batch = story.arrive("batch", 3, labels={"cpuset.max": "7"})
    story.settle()
    whole = story.granted(batch)
    story.hotplug(0)
    assert (story.granted(batch), 7 in story.world.state.reserved) == (fewer, True)
    story.hotplug(0)
    assert (story.granted(batch), 0 in story.world.state.reserved) == (whole, True)


def test_what_another_container_is_pinned_to_stands_in_before_any_grant_gives_way() -> None:
    """A reserved CPU is the shared pool's: it may be pinned to."""
    story = Story(uniform(cores=4), **count(1))
    owner = story.arrive("owner", 1)
    story.settle()
    assert story.granted(owner) == "1"
    story.arrive("pinned", cpuset="2-3")
    story.settle()
    story.hotplug(0)
    assert (story.granted(owner), str(story.world.state.reserved)) == ("1", "2")


def test_a_stand_in_comes_from_what_is_above_its_fair_size() -> None:
    """The larger of two gives it up: no container loses a CPU only to get one back."""
    story = Story(uniform(cores=8), policy=PolicyName.DYNAMIC, **count(1))
    poor = story.arrive("poor", 2, labels={"cpuset.min": "1"})
    story.settle()
    rich = story.arrive("rich", 1, labels={"cpuset.max": "8"})
    story.settle()
    while story.timers:
        story.time_out(0)
    before = story.granted(poor)
    story.hotplug(0)
    assert (story.granted(poor), len(CPUSet.parse(story.granted(rich) or ""))) == (before, 4)


def test_what_lost_its_cpus_stays_before_what_asked_later() -> None:
    """The CPUs that come back go to the container that had them, not to one that has waited all the while."""
    story = Story(uniform(cores=3), **count(1))
    first, second = story.arrive("first", 1), story.arrive("second", 1)
    story.settle()
    waits = story.arrive("waits", 1, labels={"cpuset.on-shortage": "wait"})
    story.settle()
    story.hotplug(1, 2)
    assert [story.granted(each) for each in (first, second, waits)] == [None, None, None]
    story.hotplug(1)
    assert [story.granted(each) for each in (first, second, waits)] == ["1", None, None]
    story.hotplug(2)
    assert [story.granted(each) for each in (first, second, waits)] == ["1", "2", None]
