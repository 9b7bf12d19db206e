"""A State that is carried over keeps what the rule for the shared pool demands, as if every container asked again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.decide.facts import Purpose, ResizeRequested
from sidecar.decide.settings import PolicyName
from sidecar.words.causes import why
from sidecar.words.repairs import noted
from state.cpuset import CPUSet
from state.demand import NumaRule
from state.invariants import violations
from state.refusal import PoolEmptied, RefusalCode
from state.topology import uniform
from tests.decide.lawbook.refitlaws import ended_though_they_fit
from tests.decide.lawbook.roomlaws import kept_without_room
from tests.support.decide.carried import carried_over, refitted, some_fitted
from tests.support.decide.histories import MACHINES, SETTINGS
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, where

BY_CORES = ("full-pcpus-only", "strict-cpu-reservation")


def three(story: Story, **labels: str) -> list[Real]:
    """Return three owners of two CPUs each, in the order of their arrival."""
    found = [story.arrive(name, 2, labels=labels) for name in ("first", "second", "third")]
    story.settle()
    return found


def notes(story: Story) -> list[str]:
    """Return what the last repair changed, as shown to people."""
    return [noted(each) for each in story.world.notes]


def granted(story: Story, reals: list[Real]) -> list[str | None]:
    return [story.granted(each) for each in reals]


def test_options_that_keep_a_core_for_the_pool_take_it_from_the_latest_grant() -> None:
    """All cores but the reserved one are granted; under the new options the pool would be half of that core."""
    story = Story(uniform(cores=4, threads=2))
    plain, owners = story.arrive("plain"), three(story)
    assert granted(story, owners) == ["1,5", "2,6", "3,7"]
    story.change_settings(options=BY_CORES)
    story.settle()
    assert granted(story, owners) == ["1,5", "2,6", None]
    assert (where(owners[2]), where(plain)) == ("3-4,7", "3-4,7")
    refusal = story.refusal(owners[2])
    assert refusal.code is RefusalCode.CPUS_LOST
    said = (
        "it held CPUs 3,7, and needs 2 exclusive CPUs; 3 CPUs are shared, and a whole core must stay shared "
        "(1 reserved: 0; 4 held by first, second)"
    )
    assert notes(story) == [f"third lost its exclusive CPUs: {said}"]
    assert story.why_refused(owners[2]) == said


def test_a_grant_that_ends_on_a_machine_that_is_too_small_is_refused_for_that() -> None:
    """Also while its container rests, when it is not asked again."""
    story = Story(uniform(cores=2))
    rests = story.arrive("rests", 1)
    story.settle()
    story.end(rests)
    story.toggle_cpu(1)
    story.read_topology()
    assert "but this machine can give none" in story.why_refused(rests)


def test_the_same_requests_from_nothing_are_answered_the_same() -> None:
    """A request under these options is refused for the same reason."""
    story = Story(uniform(cores=4, threads=2), options=BY_CORES)
    owners = three(story)
    assert granted(story, owners) == ["1,5", "2,6", None]
    assert story.refusal(owners[2]).code is RefusalCode.POOL_WOULD_BE_EMPTY


def test_cpus_that_come_back_move_no_container_that_was_granted_under_other_options() -> None:
    """Half of a core, and CPUs on two nodes, are lawful until the next grant, whatever comes online."""
    story = Story(uniform(cores=4, threads=2), policy=PolicyName.DYNAMIC)
    half = story.arrive("half", 1, labels={"cpuset.max": "2"})
    other = story.arrive("other", 1)
    story.hotplug(2)
    story.change_settings(policy=PolicyName.DYNAMIC, options=BY_CORES)
    before = granted(story, [half, other])
    story.hotplug(2)
    assert granted(story, [half, other]) == before
    story = Story(uniform(nodes=2, cores=2))
    story.hotplug(2)
    both = story.arrive("both", 2)
    story.change_settings(numa=NumaRule.SINGLE)
    story.hotplug(2)
    assert story.granted(both) == "1,3"


def test_a_waiting_container_gets_its_cpus_back_with_the_old_options() -> None:
    story = Story(uniform(cores=4, threads=2))
    owners = three(story, **{"cpuset.on-shortage": "wait"})
    story.change_settings(options=BY_CORES)
    story.settle()
    assert granted(story, owners) == ["1,5", "2,6", None]
    story.change_settings()
    story.settle()
    assert granted(story, owners) == ["1,5", "2,6", "3,7"]
    assert story.is_settled(owners[2])


@pytest.mark.parametrize(
    ("fields", "left"), [({"options": BY_CORES}, "1,5"), ({"shared_min": 3}, "1,5-6")], ids=lambda value: str(value)
)
def test_containers_shrink_before_any_container_loses_all(fields: dict[str, Any], left: str) -> None:
    """Under `dynamic`: the first holds the spare CPUs, and the later one its floor. The rest stays in place."""
    story = Story(uniform(cores=4, threads=2), policy=PolicyName.DYNAMIC)
    large = story.arrive("large", 4, labels={"cpuset.min": "2"})
    small = story.arrive("small", 2)
    story.settle()
    assert granted(story, [large, small]) == ["1-2,5-6", "3,7"]
    story.change_settings(policy=PolicyName.DYNAMIC, **fields)
    assert granted(story, [large, small]) == [left, "3,7"]
    assert notes(story) == [f"large moved from CPUs 1-2,5-6 to {left}"]
    assert kept_without_room(story.world.state, story.machine, story.settings) == []


def test_a_cpu_that_goes_is_taken_from_what_somebody_has_above_its_floor() -> None:
    """It holds all CPUs but the pool's: it gives up one more, and not everything."""
    story = Story(policy=PolicyName.DYNAMIC, shared_min=2)
    rt = story.arrive("rt", 6, labels={"cpuset.min": "1"})
    story.settle()
    assert story.granted(rt) == "1-6"
    story.hotplug(7)
    assert story.granted(rt) == "1-5"
    assert story.is_settled(rt)


def test_a_neighbours_cpu_that_goes_is_replaced_with_notice_to_the_one_that_shrinks() -> None:
    """An ungranted CPU replaces it at once; one that an elastic container gives up for the pool goes later."""
    story = Story(policy=PolicyName.DYNAMIC, shared_min=2)
    elastic = story.arrive("elastic", 4, labels={"cpuset.min": "1"})
    fixed = story.arrive("fixed", 2)
    story.settle()
    assert granted(story, [elastic, fixed]) == ["1-4", "5-6"]
    story.hotplug(5)
    assert granted(story, [elastic, fixed]) == ["1-3", "6-7"]
    leaving = story.world.state.assignments[elastic.key].leaving
    assert leaving is not None
    assert (str(leaving.cpus), str(leaving.due)) == ("4", "")
    assert str(elastic.effective) == "1-4"
    assert [timer.container for timer in story.timers if timer.purpose is Purpose.GRACE] == [elastic.key]


@pytest.mark.parametrize("is_reserved", [False, True], ids=["offline", "reserved"])
def test_what_replaces_anothers_cpu_leaves_its_holder_with_notice(is_reserved: bool) -> None:
    """No other CPU is left: the floor of the first is made up from the later one's CPUs above its own floor."""
    story = Story(policy=PolicyName.DYNAMIC)
    fixed = story.arrive("fixed", 2)
    elastic = story.arrive("elastic", 5, labels={"cpuset.min": "1"})
    story.settle()
    assert granted(story, [fixed, elastic]) == ["1-2", "3-7"]
    if is_reserved:
        story.change_settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0, 1))
    else:
        story.toggle_cpu(1)
        story.read_topology()
    story.settle()
    assert granted(story, [fixed, elastic]) == ["2,7", "3-6"]
    assert (str(fixed.effective), str(elastic.effective)) == ("2", "3-7")
    (grace,) = [at for at, timer in enumerate(story.timers) if timer.purpose is Purpose.GRACE]
    story.time_out(grace)
    story.settle()
    assert (str(fixed.effective), str(elastic.effective)) == ("2,7", "3-6")
    assert story.is_settled(fixed)


@settings(max_examples=400, deadline=None)
@given(
    machine=st.sampled_from(MACHINES),
    before=st.sampled_from(SETTINGS),
    after=st.sampled_from(SETTINGS),
    sizes=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=5),
    offline=st.sets(st.integers(0, 11), max_size=3),
)
def test_the_pool_keeps_what_the_rule_says_after_a_refit(machine, before, after, sizes, offline) -> None:  # type: ignore[no-untyped-def]
    """For any grants under any settings; the State is lawful, and fitting it again changes nothing."""
    books, left, node = carried_over(machine, before, after, sizes, CPUSet(offline))
    assert kept_without_room(books, left, node) == []
    assert violations(books, left) == []
    assert refitted(books, left, node)[0] == books


@pytest.mark.parametrize(("first", "last"), [(0, 400), pytest.param(400, 2000, marks=pytest.mark.slow)])
def test_the_pool_keeps_it_in_two_thousand_seeded_cases(first: int, last: int) -> None:
    """The same law, over States drawn from seeds; in enough of them a container loses its grant for lack of room. Where
    counting is enough, none loses it whose floor fits.
    """
    lost = 0
    for seed in range(first, last):
        before, world = some_fitted(seed)
        assert kept_without_room(world.state, world.topology, world.settings) == []
        assert ended_though_they_fit(before, world) == []
        lost += any(isinstance(each.refusal.detail, PoolEmptied) for each in world.state.refusals.values())
    assert lost * 20 > last - first


def test_from_dynamic_to_static_a_container_is_completed_and_is_told_why() -> None:
    """Below its number it gets what it asks for: for no rule of placement."""
    story = Story(uniform(cores=8), policy=PolicyName.DYNAMIC)
    small = story.arrive("small", 4, labels={"cpuset.min": "2", "cpuset.max": "4", "cpuset.scale": "manual"})
    story.feed(ResizeRequested(small.key, 2))
    story.settle()
    assert story.granted(small) == "1-2"
    story.change_settings(policy=PolicyName.STATIC)
    assert why(story.world.state.assignments[small.key].moves[-1].cause) == "it needs at least 4 CPUs"


def test_from_dynamic_to_static_a_container_gives_up_what_it_gained_and_keeps_what_it_began_with() -> None:
    """Another one is completed to its number from that."""
    story = Story(uniform(cores=7), policy=PolicyName.DYNAMIC)
    server = story.arrive("server", 4, labels={"cpuset.min": "2"})
    sig = story.arrive("sig", 1, labels={"cpuset.max": "2"})
    story.settle()
    story.change_settings(policy=PolicyName.DYNAMIC, reserved_cpus=CPUSet.of(0, 4))
    story.settle()
    began = story.world.state.assignments[sig.key].original
    assert len(story.world.state.assignments[server.key].cpus) < 4
    story.change_settings()
    story.settle()
    assert story.world.state.assignments[sig.key].cpus == began
    assert len(story.world.state.assignments[server.key].cpus) == 4
