"""A refusal is of one request: a container that asks for something else is decided anew, as if first seen."""

from __future__ import annotations

import pytest

from sidecar.decide.settings import Rule, TenantRight
from state.refusal import RefusalCode
from state.topology import uniform
from tests.support.decide.stories import Story, cpus, static, where


def rule(**labels: object) -> Rule:
    return Rule(name="a", labels={f"cpuset.{name.replace('_', '-')}": str(value) for name, value in labels.items()})


def changed(story: Story, *rules: Rule) -> None:
    """Change the rules by SIGHUP, and nothing else."""
    story.change_settings(may=story.settings.may, rules=rules)
    story.settle()


@pytest.mark.parametrize(
    ("wrong", "code", "right"),
    [
        ({"exclusive": 9}, RefusalCode.NOT_ENOUGH, {"exclusive": 2}),
        ({"exclusive": 2, "numa": "nearby"}, RefusalCode.BAD_LABEL, {"exclusive": 2}),
        ({"exclusive": 3, "options": "full-pcpus-only"}, RefusalCode.NOT_WHOLE_CORES, {"exclusive": 3}),
        ({"exclusive": 2, "options": "distribute-cpus-across-sockets"}, RefusalCode.BAD_LABEL, {"exclusive": 2}),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_corrected_rule_is_granted_while_the_container_runs(
    wrong: dict[str, object], code: RefusalCode, right: dict[str, object], restarts: bool
) -> None:
    """Whether the sidecar runs or is away while the rule is corrected."""
    story = Story(uniform(cores=4, threads=2), rules=(rule(**wrong),))
    a = story.arrive("a")
    story.settle()
    assert story.refusal(a).code is code
    if restarts:
        story.settings = static(rules=(rule(**right),))
        story.crash([True])
        story.connect()
        story.settle()
    else:
        changed(story, rule(**right))
    assert len(cpus(story.granted(a) or "")) == right["exclusive"]
    assert story.is_settled(a)


@pytest.mark.parametrize("may", [(), (TenantRight.PIN,)])
def test_what_is_pinned_by_hand_keeps_its_pin_when_its_contradiction_is_mended(may: tuple[TenantRight, ...]) -> None:
    story = Story(may=may, rules=(rule(exclusive=3),))
    a = story.arrive("a", cpuset="4-5")
    story.settle()
    assert (story.refusal(a).code, where(a)) == (RefusalCode.CONTRADICTION, "4-5")
    changed(story, rule(exclusive=2))
    assert (story.granted(a), where(a)) == ("4-5", "4-5")


def test_the_same_request_is_not_asked_again_before_the_next_start() -> None:
    """CPUs that come free are not granted to a container that did not choose to wait, whatever else is reloaded."""
    story = Story(rules=(rule(exclusive=2),))
    other = story.arrive("other", 6)
    a = story.arrive("a")
    story.settle()
    story.away(other)
    changed(story, Rule(name="b", labels={}), rule(exclusive=2))
    assert story.granted(a) is None
    story.end(a)
    story.again(a)
    assert story.granted(a) is not None


def test_another_request_that_does_not_fit_either_is_told_anew() -> None:
    story = Story(rules=(rule(exclusive=9),))
    a = story.arrive("a")
    story.settle()
    changed(story, rule(exclusive=8))
    assert story.why_refused(a).startswith("asked for 8 exclusive CPUs")
    changed(story, rule(exclusive="two"))
    assert story.refusal(a).code is RefusalCode.BAD_LABEL
    changed(story, rule(exclusive="three"))
    assert "three" in story.why_refused(a)


def test_one_that_is_to_stop_now_is_stopped_as_at_a_first_look() -> None:
    story = Story(rules=(rule(exclusive=9),))
    story.arrive("a")
    story.settle()
    assert story.stops() == []
    changed(story, rule(exclusive=9, on_shortage="stop"))
    assert story.stops() == ["a"]


def test_another_request_keeps_its_place_in_the_queue() -> None:
    story = Story(rules=(rule(exclusive=3, on_shortage="wait"),))
    story.arrive("holder", 6)
    a = story.arrive("a")
    later = story.arrive("later", 2, labels={"cpuset.on-shortage": "wait"})
    story.settle()
    changed(story, rule(exclusive=2, on_shortage="wait"))
    assert story.world.queue == (a.key, later.key)


def test_another_name_is_no_other_request() -> None:
    story = Story(rules=(Rule(name="*", labels={"cpuset.exclusive": "2"}),))
    other = story.arrive("other", 6)
    a = story.arrive("a")
    story.settle()
    story.away(other)
    a.name = "b"
    story.look(a)
    story.settle()
    assert story.granted(a) is None
