"""Three laws of rules have teeth: what a rule moved stays away, what people released does not rest, or what is told
plain is not, by a planted fault.

Random histories rarely come to that: a pin onto a reserved CPU, a rule that asks for as many CPUs, and one that goes;
one that goes and comes back after a release; a pattern of `unmanaged`; limits that ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sidecar.decide.facts import SettingsChanged
from sidecar.decide.settings import OptIn, Rule
from sidecar.decide.world import replace
from sidecar.simulation.model_limits import Limits
from state.codec import to_builtins
from tests.decide.lawbook import rulelaws
from tests.decide.lawbook.rule_faults import (
    forgets_a_release_with_the_request,
    forgets_at_a_creation_that_limits_may_ask,
    hears_no_pattern_at_a_creation,
    hears_no_rule_at_a_creation,
    leaves_it_where_its_rule_put_it,
    takes_every_label_for_a_name,
)
from tests.support.decide import history_rules
from tests.support.decide.reality import Reality
from tests.support.decide.stories import GIGA, Story, where
from tests.support.laws import When, breaches


@pytest.mark.parametrize("is_broken", [True, False])
def test_what_a_rule_moved_and_left_there_is_caught(is_broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    one = story.arrive("one", cpuset="0")
    story.read_settings(replace(story.settings, rules=(Rule(name="one", labels={"cpuset.exclusive": "1"}),)))
    story.settle()
    assert where(one) != "0"
    if is_broken:
        leaves_it_where_its_rule_put_it(monkeypatch)
    story.read_settings(replace(story.settings, rules=()))
    story.settle()
    assert bool(breaches([rulelaws.HOME], story, When.REST)) == is_broken


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_release_that_ends_with_a_request_is_caught(is_broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_broken:
        forgets_a_release_with_the_request(monkeypatch)
    rules = (Rule(name="one", labels={"cpuset.exclusive": "1"}),)
    story = Story(rules=rules)
    one = story.arrive("one")
    story.settle()
    history_rules.give_up(story, one)
    story.read_settings(replace(story.settings, rules=()))
    story.settle()
    assert one.key in story.given_up
    # As a Story, it would keep all laws at each step.
    Reality.feed(story, SettingsChanged(to_builtins(replace(story.settings, rules=rules))))
    assert bool(breaches([rulelaws.RESTS], story, When.STEP)) == is_broken


@pytest.mark.parametrize(
    ("plant", "settings", "fields"),
    [
        (hears_no_rule_at_a_creation, {"rules": (Rule(name="one", labels={"cpuset.exclusive": "1"}),)}, {}),
        (hears_no_pattern_at_a_creation, {"unmanaged": ("o*",)}, {}),
        (
            forgets_at_a_creation_that_limits_may_ask,
            {"opt_in": OptIn.GUARANTEED},
            {"nano_cpus": 2 * GIGA},
        ),
        (takes_every_label_for_a_name, {}, {"exclusive": 2}),
        (takes_every_label_for_a_name, {}, {"labels": {"cpuset.manage": "off"}}),
    ],
)
@pytest.mark.parametrize("is_broken", [True, False])
def test_what_is_told_plain_and_is_not_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None],
    settings: dict[str, Any],
    fields: dict[str, Any],
    is_broken: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story(**settings)
    one = story.arrive("one", **fields)
    story.store(one, Limits(memory=1 << 30))
    story.look(one)
    if is_broken:
        plant(monkeypatch)
    assert bool(breaches([rulelaws.TOLD_PLAIN], story, When.STEP)) == is_broken
