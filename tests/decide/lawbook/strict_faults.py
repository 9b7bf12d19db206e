"""Faults of strict start and of the shared group, each a rule that is broken in one place: the histories catch each."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.decide import sightings, step
from sidecar.decide.books import takes
from sidecar.decide.books.dynamic import DynamicPolicy
from sidecar.decide.books.static import StaticPolicy
from sidecar.decide.container.container import Container
from sidecar.decide.container.footprint import Reach
from sidecar.decide.container.start import Asks
from sidecar.decide.facts import ContainerView, StartHeld
from sidecar.decide.moves import plan as plan_module
from sidecar.decide.moves import starts
from sidecar.decide.orders import AnswerStart
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from tests.decide.lawbook import laws
from tests.decide.lawbook.faults import Fault


def answers_before_others_have_left(patch: pytest.MonkeyPatch) -> None:
    honest = starts.answer_to

    def answer(world: World, container: Container, number: int) -> AnswerStart | None:
        empty = replace(world)
        empty.__dict__["reach"] = Reach(0, 0, 0, 0)
        return honest(empty, container, number)

    patch.setattr(starts, "answer_to", answer)


def forgets_what_it_answered(patch: pytest.MonkeyPatch) -> None:
    honest = starts.answers

    def answers(world: World) -> tuple[World, tuple[AnswerStart, ...]]:
        after, given = honest(world)
        for answer in given:
            after = after.with_container(replace(after.containers[answer.container], doubts=(), start=Asks()))
        return after, given

    patch.setattr(plan_module, "answers", answers)


def waits_for_what_two_held_starts_are_configured_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Container, "is_strict", property(lambda self: False))


def forgets_where_owners_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "promised", 0)


def opens_what_a_start_was_told_with_its_grant(patch: pytest.MonkeyPatch) -> None:
    """Let others in where a container was told to start alone, as soon as its grant ends."""
    patch.setattr(Container, "is_promised", False)


def starts_what_was_refused(patch: pytest.MonkeyPatch) -> None:
    honest = starts.answer_to

    def answer(world: World, container: Container, number: int) -> AnswerStart | None:
        state = replace(world.state, refusals={})
        return honest(
            replace(world, state=state), replace(container, wish=replace(container.wish, demand=None)), number
        )

    patch.setattr(starts, "answer_to", answer)


def orders_what_is_held(patch: pytest.MonkeyPatch) -> None:
    """Order a container whose start holds its lock: there is no answer, and a slot is taken."""
    honest = plan_module.may_order
    patch.setattr(plan_module, "may_order", lambda container: honest(replace(container, start=Asks())))


def never_answers_again_once_asked(patch: pytest.MonkeyPatch) -> None:
    honest = starts.after_hold

    def after(world: World, fact: StartHeld) -> World:
        known = world.containers.get(fact.view.key)
        return world if known and known.is_strict else honest(world, fact)

    patch.setattr(step, "after_hold", after)


def believes_a_glance(patch: pytest.MonkeyPatch) -> None:
    """Take the limits from a glance, which has none: an order would drop them for good."""
    honest = sightings.sighted

    def sighted(world: World, view: ContainerView, began: int) -> World:
        return honest(world, replace(view, is_glance=False), began)

    patch.setattr(step, "sighted", sighted)
    patch.setattr(sightings, "sighted", sighted)


def tells_members_what_they_are_configured_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "sure_of", lambda self, container: container.place.configured)


def takes_at_once_from_what_starts(patch: pytest.MonkeyPatch) -> None:
    """Give no notice between the answer to a start and the first look: it may run already."""
    patch.setattr(takes, "is_inert", lambda container: container.is_idle and container.is_strict)


def lets_the_group_be(patch: pytest.MonkeyPatch) -> None:
    for policy in (StaticPolicy, DynamicPolicy):
        _leaves_the_group(patch, policy)


def _leaves_the_group(patch: pytest.MonkeyPatch, policy: type[StaticPolicy | DynamicPolicy]) -> None:
    honest = policy.desired

    def desired(self: Any, world: World, container: Container) -> CPUSet | None:
        is_group = world.group is not None and container.view.key == world.group.view.key
        return None if is_group else honest(self, world, container)

    patch.setattr(policy, "desired", desired)


def looks_at_no_member_that_moves_with_the_group(patch: pytest.MonkeyPatch) -> None:
    """Assume that a pinned member is where it was last seen, whatever its group did since."""
    patch.setattr(step, "moved_unseen", lambda before, world: ())


FAULTS = (
    Fault(answers_before_others_have_left, laws.ANSWERS, first=7),
    Fault(forgets_what_it_answered, laws.FOOTPRINTS, first=170),
    Fault(waits_for_what_two_held_starts_are_configured_for, laws.ANSWERED, first=98),
    Fault(starts_what_was_refused, laws.ANSWERS),
    Fault(opens_what_a_start_was_told_with_its_grant, laws.STARTS_ALONE, first=775),
    Fault(orders_what_is_held, laws.HELD, first=3455),
    Fault(never_answers_again_once_asked, laws.ANSWERED),
    Fault(believes_a_glance, laws.ORIGINALS, first=7),
    Fault(tells_members_what_they_are_configured_for, laws.TOLD, first=29),
    Fault(lets_the_group_be, laws.APART, first=194),
    Fault(looks_at_no_member_that_moves_with_the_group, laws.TOLD_ALL, first=8602),
)

DYNAMIC_FAULTS = (Fault(takes_at_once_from_what_starts, laws.NOTICE, first=182),)
