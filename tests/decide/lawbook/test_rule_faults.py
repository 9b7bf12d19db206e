"""The law of what was pinned by hand has teeth: what a rule moved stays away, by a planted fault, and the law says so.

Random histories rarely come to that: a pin onto a reserved CPU, a rule that asks for as many CPUs, and one that goes.
"""

from __future__ import annotations

import pytest

from sidecar.decide.settings import Rule
from sidecar.decide.world import replace
from tests.decide.lawbook import rulelaws
from tests.decide.lawbook.rule_faults import leaves_it_where_its_rule_put_it
from tests.support.decide.stories import Story, where
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
