"""Rules of the configuration: labels for containers that cannot have any, found by name, project or image, and for
units of the host, found by name. Pure.

The first rule that matches a container is its rule. A label of the container wins over the same label of its rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from sidecar.decide.container.pods import addressed
from sidecar.decide.facts import ContainerView, ViewKind
from sidecar.decide.settings import Rule

PROJECT: Final = "com.docker.compose.project"
"""The label by which compose names a container's project."""


def rule_of(view: ContainerView, rules: Sequence[Rule]) -> Rule | None:
    """Return the first rule that matches this container; None if none does."""
    return next((rule for rule in rules if _is_matched(view, rule)), None)


def ruled(view: ContainerView, rules: Sequence[Rule]) -> tuple[ContainerView, str]:
    """Return the container with the labels that are meant for it and those of its rule, and the place of that rule; ""
    if no label of the rule counts.
    """
    view = addressed(view)
    rule = rule_of(view, rules) if rules else None
    if rule is None or rule.labels.keys() <= view.labels.keys():
        return view, ""
    return msgspec.structs.replace(view, labels={**rule.labels, **view.labels}), rule.place


def unit_patterns(rules: Iterable[Rule]) -> tuple[str, ...]:
    """Return the names of units to which rules give labels, as patterns."""
    return tuple(rule.unit for rule in rules if rule.unit)


def idle_rules(views: Iterable[ContainerView], rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules that are no container's, of those that are not for units of the host."""
    used = [rule_of(view, rules) for view in views]
    return tuple(rule for rule in rules if rule not in used and not rule.unit)


def idle_unit_rules(names: Iterable[str], rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Return the rules for units of the host that are the rule of no unit of these names."""
    for_units = [rule for rule in rules if rule.unit]
    used = [next((rule for rule in for_units if fnmatchcase(name, rule.unit)), None) for name in names]
    return tuple(rule for rule in for_units if rule not in used)


def _is_matched(view: ContainerView, rule: Rule) -> bool:
    """Return whether every pattern that the rule has matches."""
    if view.kind is not ViewKind.CONTAINER or rule.unit:
        return view.kind is ViewKind.UNIT and bool(rule.unit) and fnmatchcase(view.name, rule.unit)
    texts = ((rule.name, view.name), (rule.project, view.labels.get(PROJECT, "")), (rule.image, view.image))
    return all(not pattern or fnmatchcase(text, pattern) for pattern, text in texts)
