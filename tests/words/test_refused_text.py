"""A refusal that people read names what has the CPUs since that it counts as free."""

from __future__ import annotations

from sidecar.decide.settings import PolicyName, Rule
from sidecar.words.refused_text import why_refused
from state.topology import uniform
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.real import Real
from tests.support.decide.stories import Story

FLOORS = "this counts every elastic container at its floor"


def told(story: Story, real: Real) -> str:
    return why_refused(story.world, story.world.state.refusals[real.key])


def test_what_an_elastic_container_has_above_its_floor_is_named() -> None:
    story = Dynamic()
    story.elastic("batch", 4, 4, 7)
    late = story.arrive("late", 4)
    assert "3 free: 5-7" in told(story, late)
    assert told(story, late).endswith(f"; {FLOORS}; batch has CPUs 5-7 now")


def test_what_grows_in_the_decision_that_refuses_another_is_told() -> None:
    """The CPU was free when the other was asked, and is not when that is told: the recorded reason says so, too."""
    story = Dynamic(uniform(cores=4), rules=(_rule("web", 2),))
    web, late = story.arrive("web"), story.arrive("late")
    story.settle()
    rules = (_rule("web", 2, max="3"), _rule("late", 2, **{"on-shortage": "wait"}))
    story.change_settings(policy=PolicyName.DYNAMIC, rules=rules)
    assert len(story.grant(web).cpus) == 3
    assert story.why_refused(late).endswith(FLOORS)
    assert told(story, late).endswith("; web has CPU 3 now")


def _rule(name: str, count: int, **others: str) -> Rule:
    return Rule(
        name=name, labels={"cpuset.exclusive": str(count), **{f"cpuset.{key}": text for key, text in others.items()}}
    )


def test_what_others_got_after_a_container_that_does_not_wait_is_named() -> None:
    """Its refusal is of its moment, and stands until its next start."""
    story = Story(uniform(cores=4), policy=PolicyName.STATIC)
    story.arrive("one", 2)
    late = story.arrive("late", 2)
    assert told(story, late) == "asked for 2 exclusive CPUs, 1 free: 3 (1 reserved: 0; 2 held by one); 1 would fit"
    small = story.arrive("small", 1)
    assert story.granted(small) == "3"
    assert told(story, late).endswith("; 1 would fit; small has CPU 3 now")
    story.away(small)
    assert told(story, late).endswith("; 1 would fit")


def test_what_is_shared_no_more_is_counted() -> None:
    story = Story(uniform(cores=5), policy=PolicyName.STATIC, shared_min=2)
    story.arrive("one", 1)
    late = story.arrive("late", 3)
    assert "4 CPUs are shared, and 2 must stay shared" in told(story, late)
    story.arrive("small", 1)
    assert told(story, late).endswith("; 3 are shared now")
