"""A container with `full-pcpus-only` holds, gains and loses whole cores, whatever comes beside it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sidecar.decide.facts import Purpose
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.words.sizes_text import about_size
from state.refusal import RefusalCode
from state.topology import uniform
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, cpus

WHOLE = {"cpuset.options": "full-pcpus-only"}


def on_four_cores(**settings: object) -> Dynamic:
    """Return a host of cores 0,4 1,5 2,6 3,7 of which the first is reserved."""
    return Dynamic(uniform(cores=4, threads=2), reserved_cpus=cpus("0,4"), **settings)


def test_whole_cores_come_and_go_under_full_pcpus_only() -> None:
    story = Dynamic(uniform(cores=4, threads=2, adjacent=True), reserved_cpus=cpus("0-1"), options=("full-pcpus-only",))
    batch = story.elastic("batch", 2, 2, 5)
    assert story.layout(batch) == ["2-5"]
    story.elastic("web", 2)
    assert story.layout(batch) == ["2-5"]
    story.elastic("db", 2)
    assert (story.layout(batch), story.leaving(batch)) == (["2-3"], "4-5")


def test_half_cores_beside_single_cpus_are_not_free_for_whole_cores() -> None:
    story = Story(uniform(cores=4, threads=2), policy=PolicyName.STATIC, reserved_cpus=cpus("0,4"))
    single = story.arrive("single", 1)
    assert story.granted(single) == "1"
    whole = story.arrive("whole", 6, labels=WHOLE)
    assert story.refusal(whole).code is RefusalCode.NOT_WHOLE_CORES
    assert "4 free: 2-3,6-7 on whole cores" in story.why_refused(whole)
    assert story.granted(story.arrive("smaller", 4, labels=WHOLE)) == "2-3,6-7"


def test_half_cores_beside_a_pin_by_hand_are_not_free_for_whole_cores() -> None:
    story = Story(uniform(cores=4, threads=2), policy=PolicyName.STATIC, reserved_cpus=cpus("0"))
    story.arrive("pinned", cpuset="1,6")
    whole = story.arrive("whole", 4, labels=WHOLE)
    assert "2 free: 3,7 on whole cores" in story.why_refused(whole)
    assert "2 would fit" in story.why_refused(whole)


def test_one_thread_that_an_arrival_takes_is_left_with_the_other_at_once() -> None:
    story = on_four_cores()
    batch = story.elastic("batch", 2, 2, 6, options="full-pcpus-only")
    single = story.elastic("single", 1)
    assert (story.layout(batch), story.leaving(batch)) == (["1-2,5-6"], "3,7")
    assert story.layout(single) == ["3"]


@pytest.mark.parametrize("least_change", [1, 2, 4])
def test_a_core_comes_back_as_a_whole_when_the_arrival_has_left(least_change: int) -> None:
    """Nothing is announced as leaving in between that returns in the same moment."""
    story = on_four_cores(min_change=least_change)
    batch = story.elastic("batch", 2, 2, 6, options="full-pcpus-only")
    single = story.elastic("single", 1)
    story.over(Purpose.GRACE, batch)
    story.settle()
    story.away(single)
    story.settle()
    assert (story.layout(batch), story.leaving(batch)) == (["1-3,5-7"], "")
    assert [move.lost for move in story.grant(batch).moves if move.lost] == [cpus("3,7")]


def test_a_core_that_is_whole_again_is_given_up_where_it_is_more_than_the_ceiling() -> None:
    """Five CPUs are whole cores while a thread of one is offline; beside it, all six are above the ceiling of five."""
    story = on_four_cores()
    batch = story.elastic("batch", 4, 1, 5, options="full-pcpus-only")
    assert story.layout(batch) == ["1-2,5-6"]
    story.hotplug(6)
    assert story.layout(batch) == ["1-3,5,7"]
    story.hotplug(6)
    assert (story.layout(batch), story.leaving(batch)) == (["1,3,5,7"], "2")


def test_a_floor_of_one_thread_is_a_core() -> None:
    story = on_four_cores()
    whole = story.elastic("whole", 2, 1, 2, options="full-pcpus-only")
    crowd = story.elastic("crowd", 5)
    assert story.refusal(crowd).code is RefusalCode.NOT_ENOUGH
    assert story.layout(whole) == ["1,5"]


def test_a_floor_of_one_thread_counts_as_a_core_in_what_the_pool_keeps() -> None:
    story = Dynamic(uniform(cores=2, threads=2), reserved_cpus=cpus("0"), shared_min=2)
    whole = story.elastic("whole", 2, 1, 2, options="full-pcpus-only")
    single = story.elastic("single", 1)
    assert story.layout(whole) == ["1,3"]
    assert story.refusal(single).code is RefusalCode.POOL_WOULD_BE_EMPTY
    assert len(story.world.state.shared) == 2


def test_an_arrival_takes_one_core_where_others_are_free() -> None:
    """Beside a core that lacks a thread, and one that must stay shared."""
    options = ("full-pcpus-only", "strict-cpu-reservation")
    machine = uniform(cores=6, threads=2)
    story = Dynamic(machine, reserved_cpus=cpus("0,6"), options=options)
    batch = story.elastic("batch", 2, 2, 6)
    assert story.layout(batch) == ["1-3,7-9"]
    story.elastic("web", 4)
    assert (story.layout(batch), story.leaving(batch)) == (["1-2,7-8"], "3,9")


def test_an_elastic_container_gives_up_what_a_container_is_pinned_to_by_hand() -> None:
    """Above its floor, with notice, and whole cores together."""
    story = on_four_cores()
    batch = story.elastic("batch", 2, 2, 6, options="full-pcpus-only")
    story.arrive("pinned", cpuset="6")
    story.settle()
    assert (story.layout(batch), story.leaving(batch)) == (["1,3,5,7"], "2,6")
    assert story.why(batch) == "a container that is pinned by hand keeps CPU 6"


def test_original_cpus_go_if_a_container_is_pinned_there_by_hand() -> None:
    """It has two other cores, and is alone there."""
    story = on_four_cores()
    batch = story.elastic("batch", 2, 2, 6)
    had = story.grant(batch)
    story.arrive("pinned", cpuset=str(had.original))
    story.settle()
    assert story.grant(batch).cpus == had.cpus - had.original


def test_a_core_is_entered_as_a_whole_when_both_halves_are_free() -> None:
    """Another container still leaves one thread of the core: the other thread is not entered before that is over."""
    story = Dynamic(uniform(cores=5, threads=2, adjacent=True), reserved_cpus=cpus("0-1"))
    plain = story.elastic("plain", 5, 2)
    whole = story.elastic("whole", 2, None, 10, options="full-pcpus-only")
    assert (story.layout(plain, whole), story.leaving(plain)) == (["2-5", "6-9"], "6")
    assert str(whole.effective) == "8-9"
    story.over(Purpose.GRACE, plain)
    assert str(whole.effective) == "6-9"
    assert story.is_settled(whole)


def test_a_number_that_is_not_whole_cores_is_refused_with_a_range_too() -> None:
    """The number that was asked for is not rounded; bounds are."""
    story = on_four_cores(options=("full-pcpus-only",))
    uneven = story.elastic("uneven", 5, 2, 6)
    assert story.refusal(uneven).code is RefusalCode.NOT_WHOLE_CORES
    assert "would fit" in story.why_refused(uneven)
    even = story.elastic("even", 4, 1, 5)
    assert story.layout(even) == ["1-2,5-6"]


def test_cores_that_are_isolated_in_part_do_not_stay_idle_beside_the_one_that_the_pool_keeps() -> None:
    """Cores 0,6 1,7 2,8 3,9 4,10 5,11, the first reserved: only 5,11 may stay whole in the pool, and the cores 3,9 and
    4,10 cost it one CPU each.
    """
    machine = replace(uniform(cores=6, threads=2), isolated=cpus("9-10"))
    options = ("full-pcpus-only", "strict-cpu-reservation")
    story = Dynamic(machine, reserved_cpus=cpus("0"), options=options, isolated=IsolatedRule.PREFER)
    batch = story.elastic("batch", 4, 4, 12)
    assert story.layout(batch) == ["1-4,7-10"]


def on_six_cores(**settings: object) -> Dynamic:
    """Return a host of cores 0,6 1,7 and so on, of which the first is reserved, with whole cores for all."""
    return Dynamic(uniform(cores=6, threads=2), reserved_cpus=cpus("0,6"), options=("full-pcpus-only",), **settings)


@pytest.mark.parametrize("labels", [{"scale": "manual"}, {"scale": "load"}, {}], ids=["manual", "load", "fill"])
@pytest.mark.parametrize("least_change", [1, 4])
@pytest.mark.parametrize("gone", [7, 8])
def test_half_a_core_is_replaced_by_a_whole_one_when_its_thread_went_offline(
    labels: dict[str, str], least_change: int, gone: int
) -> None:
    """Whatever decides its size, whatever may be taken at a time, and also if half of its original core is left."""
    story = on_six_cores(min_change=least_change)
    f = story.elastic("f", 4, 2, 4, **labels)
    if labels.get("scale") == "load":
        story.used(f, 3.9)
    assert story.layout(f) == ["1-2,7-8"]
    story.hotplug(gone)
    half = str(gone - 6)
    whole = cpus("1-2,7-8") - cpus(f"{half},{gone}") | cpus("3,9")
    if labels.get("scale") == "load":
        story.used(f, 2.9)
    assert (story.layout(f), story.leaving(f)) == ([str(whole)], half)
    if not labels:
        assert story.why(f) == "it lies on whole cores and NUMA nodes again as its rules require"


def test_half_a_core_stays_while_no_whole_one_is_free_and_a_size_says_so() -> None:
    """Its other thread is offline: nobody else can run there. It goes as soon as a whole core is free."""
    story = on_six_cores()
    f = story.elastic("f", 4, 2, 6, scale="manual")
    other = story.elastic("other", 6)
    story.hotplug(8)
    assert story.layout(f, other) == ["1-2,7", "3-5,9-11"]
    story.resized(f, 4)
    assert about(story, f) == ("", "3 of 4 CPUs are available now; it gets the rest when CPUs become spare")
    story.away(other)
    assert (story.layout(f), story.leaving(f)) == (["1,3,7,9"], "2")


@pytest.mark.parametrize(
    ("ordered", "layout", "rounded"),
    [
        (2, "1,7", ""),
        (3, "1,7", "it gets whole cores: the order of 3 became 2"),
        (4, "1,3,7,9", ""),
        (5, "1,3,7,9", "it gets whole cores: the order of 5 became 4"),
        (6, "1,3-4,7,9-10", ""),
    ],
)
def test_an_order_counts_in_whole_cores_beside_half_a_core(ordered: int, layout: str, rounded: str) -> None:
    story = on_six_cores()
    f = story.elastic("f", 4, 2, 6, scale="manual")
    other = story.elastic("other", 6)
    story.hotplug(8)
    assert story.layout(f) == ["1-2,7"]
    story.resized(f, ordered)
    story.away(other)
    assert story.layout(f) == [layout]
    assert about(story, f) == (rounded, "")


def test_a_floor_is_rounded_up_to_whole_cores_beside_half_a_core() -> None:
    """A floor of three is four CPUs, also for one that lost a thread: an arrival takes no more."""
    story = Dynamic(uniform(cores=5, threads=2), reserved_cpus=cpus("0,5"), options=("full-pcpus-only",))
    f = story.elastic("f", 8, 3, 8)
    story.hotplug(6)
    late = story.elastic("late", 4)
    assert "2 would fit" in story.why_refused(late)
    assert story.layout(f, story.elastic("small", 2)) == ["1-3,7-8", "4,9"]


def test_why_a_size_is_another_one_than_ordered_is_said() -> None:
    """It does not run; it never gives up its original CPUs."""
    story = on_six_cores()
    f = story.elastic("f", 4, 2, 6, scale="manual")
    story.resized(f, 2)
    story.end(f)
    story.resized(f, 6)
    assert about(story, f) == ("", "it has 2 of 6 CPUs, and does not run: it gets the rest when it runs")


def about(story: Dynamic, real: Real) -> tuple[str, str]:
    return about_size(story.world, story.known(real), story.grant(real))
