"""A change of a grant names its cause: what took the CPUs, and above which number."""

from __future__ import annotations

from sidecar.decide.books.size_causes import Events, fewer_to_share, why_lost
from sidecar.decide.facts import Purpose
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from state.cause import FewerToShare, WantsFewer
from state.demand import Scale
from state.topology import uniform
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.stories import Story, cpus

WHOLE_CORES = ("full-pcpus-only",)


def test_what_is_lost_to_a_pin_by_hand_is_not_blamed_on_the_machine() -> None:
    """One container leaves the CPU, another makes room for it, and both say so."""
    story = Dynamic(uniform(cores=8))
    rich = story.elastic("rich", 2, most=7)
    poor = story.elastic("poor", 3)
    story.over(Purpose.GRACE, rich)
    pinned = str(min(story.grant(poor).cpus))
    story.arrive("pinned", cpuset=pinned)
    assert story.why(rich) == story.why(poor) == f"a container that is pinned by hand keeps CPU {pinned}"


def test_what_a_floor_lacks_after_a_hotplug_is_named_where_it_comes_from() -> None:
    """The container that gives CPUs above its floor says for which one."""
    story = Dynamic(uniform(cores=6))
    poor = story.elastic("poor", 2)
    rich = story.elastic("rich", 1, most=5)
    story.hotplug(min(story.grant(poor).cpus))
    assert story.why(rich) == "poor lacked CPUs of its floor, and took 1 CPU above rich's floor of 1"


def test_a_floor_is_the_same_beside_half_a_core() -> None:
    """Since a CPU is offline, the floor of two lies on another core, and the half of one is above it."""
    story = Dynamic(uniform(cores=5, threads=2), reserved_cpus=cpus("0,5"), options=WHOLE_CORES)
    first = story.elastic("first", 2, most=5)
    story.hotplug(max(story.grant(first).original))
    assert len(story.grant(first).cpus) == 5
    story.elastic("second", 5)
    story.elastic("third", 4)
    assert story.why(first).endswith("CPUs above first's floor of 2")


def test_what_it_no_longer_wants_is_not_blamed_on_what_there_is_to_share() -> None:
    """It followed what was spare, and gets an ordered size now: without an order, its number."""
    story = Dynamic(uniform(cores=8))
    grant = story.grant(story.elastic("web", 2, most=6))
    ordered = replace(grant, demand=replace(grant.demand, scale=Scale.MANUAL))
    assert fewer_to_share(story.world, ordered, 4) == why_lost(story.world, ordered, 4, Events()) == WantsFewer(2)
    assert isinstance(fewer_to_share(story.world, grant, 4), FewerToShare)


def test_a_resize_says_what_it_comes_to_in_whole_cores() -> None:
    """Beside the number that was ordered, if they differ."""
    story = Dynamic(uniform(cores=5, threads=2), reserved_cpus=cpus("0,5"), options=WHOLE_CORES)
    real = story.elastic("web", 2, 2, 8, scale="manual")
    story.resized(real, 5)
    assert (len(story.grant(real).cpus), story.why(real)) == (4, "it was resized to 5 CPUs: 4 on whole cores")
    story.resized(real, 8)
    assert story.why(real) == "it was resized to 8 CPUs"


def test_under_static_a_container_gives_up_what_is_above_its_number_and_says_so() -> None:
    story = Dynamic(uniform(cores=8))
    real = story.elastic("web", 2, most=6)
    story.change_settings(policy=PolicyName.STATIC)
    assert story.granted(real) == "1-2"
    assert story.why(real) == "it asks for 2 CPUs, and the policy allows no more"


def test_the_core_that_must_stay_shared_is_the_reason_of_a_refusal() -> None:
    """One CPU is not what the pool lacks, if it has to keep a whole core."""
    options = ("full-pcpus-only", "strict-cpu-reservation")
    story = Story(uniform(cores=4, threads=2), reserved_cpus=cpus("0,4"), options=options)
    story.arrive("first", 4)
    second = story.arrive("second", 2)
    assert "2 CPUs are shared, and a whole core must stay shared" in story.why_refused(second)
    third = story.arrive("third", 6)
    assert "this machine can give 4 at most: a whole core must stay shared" in story.why_refused(third)


def test_no_more_is_said_to_be_kept_than_there_is() -> None:
    """A grant of a number that is none of whole cores was made before these were asked for."""
    story = Dynamic(uniform(cores=6, threads=2), reserved_cpus=cpus("0,6"))
    odd = story.grant(story.elastic("odd", 3, 3, 6))
    options = replace(story.world.settings, options=WHOLE_CORES)
    found = [fewer_to_share(replace(story.world, settings=options), odd, count) for count in (2, 3)]
    assert [(cause.floor, cause.kept) for cause in found if isinstance(cause, FewerToShare)] == [(3, 4), (3, 0)]
