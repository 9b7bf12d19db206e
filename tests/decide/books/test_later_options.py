"""Options and bounds that come by a reload: what a grant has stays where it lies, and its size counts at once."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.settings import IsolatedRule, PolicyName, Rule
from sidecar.words.sizes_text import about_size
from state.cause import CeilingSank
from state.demand import NumaRule
from state.topology import Topology, uniform
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.real import Real
from tests.support.decide.stories import cpus

CORES = ("full-pcpus-only",)


def on_cores(**settings: Any) -> Dynamic:
    """Return a host of cores 0,6 1,7 and so on, of which the first is reserved."""
    return Dynamic(uniform(cores=6, threads=2), reserved_cpus=cpus("0,6"), **settings)


def reload(story: Dynamic, **settings: Any) -> None:
    story.change_settings(policy=PolicyName.DYNAMIC, reserved_cpus=cpus("0,6"), **settings)
    story.settle()


def size(story: Dynamic, real: Real) -> int:
    return len(story.grant(real).cpus)


@pytest.mark.parametrize("min_change", [1, 4])
def test_a_ceiling_counts_in_whole_cores_from_the_option_on(min_change: int) -> None:
    """What is above it goes at once, with notice and its reason, though the container cools down and it is little."""
    story = on_cores(min_change=min_change)
    web = story.elastic("web", 2, 1, 3)
    assert size(story, web) == 3
    had = story.grant(web).cpus
    reload(story, options=CORES, min_change=min_change)
    grant = story.grant(web)
    assert len(grant.cpus) == 2
    assert grant.cpus <= had
    assert grant.moves[-1].cause == CeilingSank(2)
    assert grant.leaving is not None
    assert grant.leaving.waiting == had - grant.cpus


def test_half_cores_stay_where_they_are_and_grow_to_whole_ones() -> None:
    """Up to the ceiling in whole cores: a half core counts with one CPU."""
    story = on_cores()
    singles = [story.elastic(name, 1) for name in "abc"]
    web = story.elastic("web", 2, 2, 5)
    story.elastic("rest", 4)
    assert story.layout(*singles) == ["1", "7", "2"]
    had = story.grant(web).cpus
    assert cpus("8") <= had
    reload(story, options=CORES)
    assert story.grant(web).cpus <= had
    assert cpus("8") <= story.grant(web).cpus
    assert size(story, web) <= 4
    story.away(singles[2])
    story.settle()
    assert cpus("2,8") <= story.grant(web).cpus
    assert size(story, web) == 4


def test_a_number_that_comes_to_no_whole_cores_stays() -> None:
    """Its ceiling is that of single CPUs, too, and its original CPUs stay: no whole core takes their place."""
    story = on_cores()
    web = story.elastic("web", 3, 1, 3)
    assert size(story, web) == 3
    had = story.grant(web).cpus
    reload(story, options=CORES)
    assert story.grant(web).cpus == had


def test_single_cpus_are_shared_out_again_when_the_option_goes() -> None:
    story = on_cores(options=CORES)
    web = story.elastic("web", 2, 1, 3)
    assert size(story, web) == 2
    reload(story)
    assert size(story, web) == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"options": ("distribute-cpus-across-numa",)},
        {"options": ("distribute-cpus-across-cores",)},
        {"options": ("align-by-socket",)},
        {"options": ("prefer-align-cpus-by-uncorecache",)},
        {"options": ("strict-cpu-reservation",)},
        {"numa": NumaRule.SINGLE},
        {"numa": NumaRule.RESTRICTED},
        {"numa": NumaRule.BEST_EFFORT},
        {"isolated": IsolatedRule.PREFER},
        {"isolated": IsolatedRule.ONLY},
        {"min_change": 4},
        {"options": CORES},
    ],
    ids=str,
)
@pytest.mark.parametrize("machine", [uniform(cores=6, threads=2), uniform(packages=2, cores=3, threads=2)], ids=str)
def test_what_comes_later_moves_nothing(machine: Topology, settings: dict[str, Any]) -> None:
    """Neither at once, nor when a container comes, nor when it goes, but for what a range gives up and gets back."""
    story = Dynamic(machine, reserved_cpus=cpus("0,6"))
    fixed = [story.elastic(name, count) for name, count in (("one", 1), ("two", 2), ("four", 4))]
    had = [story.grant(each).cpus for each in fixed]
    reload(story, **settings)
    assert [story.grant(each).cpus for each in fixed] == had
    late = story.elastic("late", 1)
    story.away(late)
    story.settle()
    assert [story.grant(each).cpus for each in fixed] == had


def test_an_order_is_no_longer_above_a_ceiling_that_was_lowered() -> None:
    """It says so; and counts again when the ceiling is back."""
    story = on_cores(rules=(_rule(6),))
    web = story.arrive("web")
    story.settle()
    story.resized(web, 6)
    assert size(story, web) == 6
    reload(story, rules=(_rule(3),))
    assert size(story, web) == 3
    told = about_size(story.world, story.known(web), story.grant(web))
    assert told == ("it may have at most 3 CPUs now: the order of 6 became 3", "")
    reload(story, rules=(_rule(6),))
    assert size(story, web) == 6


def _rule(most: int) -> Rule:
    labels = {"exclusive": "2", "min": "1", "max": str(most), "scale": "manual"}
    return Rule(name="web", labels={f"cpuset.{name}": text for name, text in labels.items()})
