"""Planted faults in rules and releases, for the laws of `rulelaws`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from sidecar.decide import reconcile, sightings
from sidecar.decide.books import grants, queue
from sidecar.decide.container import askers, rules, wish
from sidecar.decide.container.container import Wish
from sidecar.decide.container.labels import ROWS
from sidecar.decide.container.swarm_task import is_over
from sidecar.decide.facts import ContainerView
from sidecar.decide.moves import plain, settled
from sidecar.decide.settings import OptIn, Rule
from sidecar.decide.world import World, replace
from tests.decide.lawbook import rulelaws
from tests.decide.lawbook.faults import Fault


def lets_rules_win(patch: pytest.MonkeyPatch) -> None:
    def ruled(view: ContainerView, given: Sequence[Rule]) -> tuple[ContainerView, str]:
        rule = rules.rule_of(view, given)
        return (replace(view, labels={**view.labels, **rule.labels}), rule.place) if rule else (view, "")

    patch.setattr(wish, "ruled", ruled)


def takes_the_last_rule(patch: pytest.MonkeyPatch) -> None:
    honest = rules.rule_of
    patch.setattr(rules, "rule_of", lambda view, given: honest(view, given[::-1]))


def keeps_what_a_rule_gave(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        grants, "has_ended", lambda container: container.is_idle and (container.is_lapsed or is_over(container.view))
    )


def grants_again_what_was_released(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue, "asks_again", lambda *_: True)


def keeps_a_refusal_of_another_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(askers, "is_another_request", lambda *_: False)


def forgets_a_release_with_the_request(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grants, "rests_as_released", lambda *_: False)


def takes_an_unseen_start_for_the_next(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(grants, "_ran_when_released", lambda *_: False)


def leaves_it_where_its_rule_put_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settled, "way_home", lambda *_: None)


def keeps_the_terms_of_old(patch: pytest.MonkeyPatch) -> None:
    for module in (reconcile, sightings):
        patch.setattr(module, "with_terms", lambda world, *_: world)


def keeps_the_terms_of_another_number(patch: pytest.MonkeyPatch) -> None:
    honest = sightings.with_terms

    def with_terms(world: World, view: ContainerView, wish: Wish) -> World:
        grant, asked = world.state.assignments.get(view.key), wish.demand
        is_same = grant is None or asked is None or asked.cpus == grant.demand.cpus
        return honest(world, view, wish) if is_same else world

    for module in (reconcile, sightings):
        patch.setattr(module, "with_terms", with_terms)


def hears_no_rule_at_a_creation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain, "ruled", lambda view, _: (view, ""))


def hears_no_pattern_at_a_creation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain, "is_unmanaged", lambda *_: False)


def forgets_at_a_creation_that_limits_may_ask(patch: pytest.MonkeyPatch) -> None:
    honest = plain.asks_nothing
    patch.setattr(plain, "asks_nothing", lambda told, given: honest(told, replace(given, opt_in=OptIn.LABEL)))


def takes_every_label_for_a_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain, "IDENTIFYING", frozenset((*plain.IDENTIFYING, *ROWS)))


FAULTS: Final = (
    Fault(hears_no_rule_at_a_creation, rulelaws.TOLD_PLAIN, first=87),
    Fault(lets_rules_win, rulelaws.LABELS_WIN, first=31),
    Fault(takes_the_last_rule, rulelaws.LABELS_WIN, first=31),
    Fault(keeps_what_a_rule_gave, rulelaws.TAKEN_BACK, first=957),
    Fault(keeps_a_refusal_of_another_request, rulelaws.ANEW, first=191),
    Fault(keeps_the_terms_of_old, rulelaws.TERMS, first=1153),
    Fault(keeps_the_terms_of_another_number, rulelaws.TERMS, first=1312),
    Fault(grants_again_what_was_released, rulelaws.RESTS, first=67),
    Fault(takes_an_unseen_start_for_the_next, rulelaws.RESTS, first=779),
    Fault(forgets_a_release_with_the_request, rulelaws.RESTS, first=18006),
)
