"""A grant has the terms for which its container asks now: what changes in the configuration counts for it at once."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.facts import GiveUpRequested, Purpose
from sidecar.decide.settings import PolicyName, Rule, TenantRight
from state.topology import uniform
from tests.support.decide.dynamic import Dynamic, elastic_labels
from tests.support.decide.real import Real
from tests.support.decide.stories import GIGA, static, where

LIFT = (TenantRight.LIFT_QUOTA,)


def limited(story: Dynamic) -> Real:
    """Start a container with a limit of 2 CPUs and up to 6: more than 2 needs the right to have the limit lifted."""
    real = story.arrive("web", 2, labels=elastic_labels(None, 6), nano_cpus=2 * GIGA)
    story.settle()
    return real


def changed(story: Dynamic, **settings: Any) -> None:
    story.change_settings(policy=PolicyName.DYNAMIC, **settings)
    story.settle()


def size(story: Dynamic, real: Real) -> int:
    return len(story.grant(real).cpus)


def test_a_right_that_is_given_counts_for_what_runs() -> None:
    story = Dynamic(may=())
    web = limited(story)
    assert size(story, web) == 2
    changed(story, may=LIFT)
    assert size(story, web) == 6


def test_a_right_that_is_taken_away_costs_what_it_gave_with_notice() -> None:
    story = Dynamic(may=LIFT)
    web = limited(story)
    assert size(story, web) == 6
    changed(story, may=())
    leaving = story.grant(web).leaving
    assert (size(story, web), story.why(web)) == (2, "it may have at most 2 CPUs now")
    assert leaving is not None
    assert len(leaving.waiting) == 4


def test_a_right_that_went_while_the_sidecar_was_away_counts_when_it_is_back() -> None:
    story = Dynamic(may=LIFT)
    web = limited(story)
    story.settings = static(policy=PolicyName.DYNAMIC, may=())
    story.crash([True])
    story.connect()
    story.settle()
    assert size(story, web) == 2


def test_a_rule_changes_the_bounds_at_once_and_the_number_at_the_next_request() -> None:
    story = Dynamic(rules=(_rule(2, 6),))
    web = story.arrive("web")
    story.settle()
    assert size(story, web) == 6
    changed(story, rules=(_rule(2, 3),))
    assert size(story, web) == 3
    changed(story, rules=(_rule(4, 7),))
    assert (size(story, web), story.grant(web).demand.cpus) == (7, 2)
    story.feed(GiveUpRequested(web.key, story.stamp()))
    story.end(web)
    story.again(web)
    assert story.grant(web).demand.cpus == 4


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "has"),
    [
        # exclusive, max, min: a number, a floor, and a ceiling change together.
        ((2, 6, None), (3, 3, None), 3),
        ((2, 6, None), (3, None, None), 2),
        ((2, 3, None), (1, 7, None), 7),
        ((4, 6, 2), (4, 4, 1), 4),
        ((4, 6, 2), (4, 5, 3), 5),
        # No ceiling is below the number that it keeps.
        ((4, 6, None), (1, 2, None), 4),
        ((4, 6, 2), (1, None, None), 4),
    ],
)
def test_beside_a_number_that_waits_a_ceiling_counts_at_once(
    before: tuple[int, int, int | None], after: tuple[int, int | None, int | None], has: int, restarts: bool
) -> None:
    """Its number and its floor are those for which it was chosen, also after a restart of the sidecar."""
    story = Dynamic(rules=(_rule(*before),))
    web = story.arrive("web")
    story.settle()
    if restarts:
        story.settings = static(policy=PolicyName.DYNAMIC, rules=(_rule(*after),))
        story.crash([True])
        story.connect()
        story.settle()
    else:
        changed(story, rules=(_rule(*after),))
    asked = story.grant(web).demand
    assert (size(story, web), asked.cpus, asked.min_cpus) == (has, before[0], before[2])


def test_beside_a_number_that_waits_a_notice_and_a_weight_count_at_once() -> None:
    story = Dynamic(rules=(_rule(2, 6, grace="3s"),))
    web = story.arrive("web")
    story.settle()
    changed(story, rules=(_rule(1, 6, grace="15s", weight="3"),))
    asked = story.grant(web).demand
    assert (asked.cpus, asked.grace_seconds, asked.weight) == (2, 15, 3)


def _rule(count: int, most: int | None, least: int | None = None, name: str = "web", **others: str) -> Rule:
    labels = {"cpuset.exclusive": str(count), **{f"cpuset.{name}": text for name, text in others.items()}}
    labels |= {"cpuset.max": str(most)} if most else {}
    return Rule(name=name, labels=labels | ({"cpuset.min": str(least)} if least else {}))


@pytest.mark.parametrize(("max_cpus", "has", "min_change"), [(3, 2, 1), (5, 4, 1), (4, 4, 4), (2, 2, 16)])
def test_what_is_above_a_lower_ceiling_goes_at_once_in_whole_cores(max_cpus: int, has: int, min_change: int) -> None:
    """Though it has just grown, and cools down; and however little that is."""
    cores = ("full-pcpus-only",)
    story = Dynamic(uniform(cores=6, threads=2), rules=(_rule(2, 6),), options=cores, min_change=min_change)
    web = story.arrive("web")
    story.settle()
    assert (size(story, web), story.grant(web).cooling is not None) == (6, True)
    changed(story, rules=(_rule(2, max_cpus),), options=cores, min_change=min_change)
    assert size(story, web) == has


def test_a_ceiling_that_is_lowered_while_the_engine_is_away_counts_at_once() -> None:
    """By other settings; the notice begins once the engine is back."""
    story = Dynamic(rules=(_rule(2, 6),))
    web = story.arrive("web")
    story.settle()
    story.disconnect()
    changed(story, rules=(_rule(2, 3),))
    assert (story.granted(web), story.leaving(web)) == ("1-3", "4-6")
    assert story.why(web) == "it may have at most 3 CPUs now"
    assert not story.waiting(Purpose.GRACE)
    story.connect()
    story.settle()
    story.over(Purpose.GRACE, web)
    assert where(web) == "1-3"


def test_a_look_that_lowers_a_ceiling_counts_at_once_though_the_engine_went_meanwhile() -> None:
    """It shows another name, by which another rule is its own."""
    story = Dynamic(rules=(_rule(2, 6), _rule(2, 3, name="old")))
    web = story.arrive("web")
    story.settle()
    web.name = "old"
    story.begin_look(web.key)
    story.disconnect()
    story.deliver_look(0)
    assert (story.granted(web), story.leaving(web)) == ("1-3", "4-6")


def test_a_take_of_what_a_look_shows_to_rest_is_due_before_its_engine_is_listed() -> None:
    """Nothing runs that could be notified, and its next birth is answered without what leaves: once it is found to run
    again, that is not announced a second time.
    """
    story = Dynamic(rules=(_rule(2, 6),))
    web = story.arrive("web")
    story.settle()
    story.disconnect()
    changed(story, rules=(_rule(2, 3),))
    story.connect(is_slow=True)
    story.stop(web)
    story.begin_look(web.key)
    story.deliver_look(len(story.looks) - 1)
    assert not story.world.is_ready
    leaving = story.grant(web).leaving
    assert leaving is not None
    assert (str(leaving.cpus), leaving.is_due) == ("4-6", True)
