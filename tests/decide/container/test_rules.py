"""Rules of the configuration: labels for containers without labels."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide.container.mounts import projection_name
from sidecar.decide.container.originals import originals_of
from sidecar.decide.container.rules import PROJECT, idle_rules, idle_unit_rules, rule_of
from sidecar.decide.container.wish import wish_of
from sidecar.decide.facts import ContainerView, Phase, ViewKind
from sidecar.decide.settings import PolicyName, Rule, Settings
from state.cpuset import CPUSet
from state.demand import Shortage
from tests.support.decide.stories import Story

DB = Rule(name="db-*", labels={"cpuset.exclusive": "4", "cpuset.on-shortage": "wait"}, place="c.toml, line 3")
SHOP = Rule(project="shop", image="postgres:*", labels={"cpuset.exclusive": "2"}, place="c.toml, line 8")
SETTINGS = Settings(policy=PolicyName.STATIC, rules=(DB, SHOP))
ONLINE = CPUSet.parse("0-7")


def view(name: str = "db-1", labels: dict[str, str] | None = None, **fields: Any) -> ContainerView:
    return ContainerView(id="a" * 64, name=name, phase=Phase.CREATED, labels=labels or {}, **fields)


@pytest.mark.parametrize(
    ("one", "rule"),
    [
        (view(), DB),
        (view("web"), None),
        (view("web", {PROJECT: "shop"}, image="postgres:16"), SHOP),
        (view("web", {PROJECT: "shop"}, image="redis:7"), None),
        (view("web", image="postgres:16"), None),
        (view("db-1", {PROJECT: "shop"}, image="postgres:16"), DB),
    ],
)
def test_the_first_rule_whose_patterns_all_match_is_the_containers(one: ContainerView, rule: Rule | None) -> None:
    assert rule_of(one, SETTINGS.rules) == rule


def test_a_rule_asks_for_its_containers() -> None:
    """As labels would; the wish names the rule."""
    found = wish_of(view(), SETTINGS, originals_of(view()), ONLINE)
    assert found.demand is not None
    assert (found.demand.cpus, found.demand.shortage, found.rule) == (4, Shortage.WAIT, "c.toml, line 3")


def test_labels_win_key_by_key() -> None:
    one = view(labels={"cpuset.exclusive": "1"})
    found = wish_of(one, SETTINGS, originals_of(one), ONLINE)
    assert found.demand is not None
    assert (found.demand.cpus, found.demand.shortage, found.rule) == (1, Shortage.WAIT, "c.toml, line 3")
    own = view(labels={"cpuset.exclusive": "no", "cpuset.on-shortage": "share"})
    assert wish_of(own, SETTINGS, originals_of(own), ONLINE).rule == ""


def test_the_shared_group_has_no_rule() -> None:
    group = view("db-group", kind=ViewKind.GROUP)
    assert wish_of(group, SETTINGS, originals_of(group), ONLINE).demand is None


def test_a_rule_may_name_a_projection() -> None:
    settings = Settings(rules=(Rule(name="*", labels={"cpuset.projection": "voice"}),))
    assert projection_name(view(), settings) == "voice"


def test_rules_without_a_container_are_found() -> None:
    """One that is hidden by an earlier rule, too."""
    hidden = Rule(name="db-1", labels={}, place="later")
    assert idle_rules([view(), view("web")], (*SETTINGS.rules, hidden)) == (SHOP, hidden)


def test_rules_without_a_unit_are_found() -> None:
    """Those for containers are not among them."""
    some, none = (Rule(unit=name, labels={}, place=name) for name in ("db@*.service", "web.slice"))
    hidden = Rule(unit="db@1.service", labels={}, place="later")
    assert idle_unit_rules(["db@1.service", "ssh.service"], (*SETTINGS.rules, some, none, hidden)) == (none, hidden)


def test_a_rule_comes_and_goes_while_a_container_runs() -> None:
    """By a reload: it is granted its CPUs, and loses them again."""
    story = Story()
    real = story.arrive("one")
    story.settle()
    story.change_settings(rules=(Rule(name="*", labels={"cpuset.exclusive": "2"}, place="r"),))
    story.settle()
    assert len(story.world.state.assignments[real.key].cpus) == 2
    story.change_settings(rules=())
    story.settle()
    assert story.world.state.assignments == {}
