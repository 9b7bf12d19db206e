"""Faults of the shared pool in force: it gives away at once what is to be replaced, or keeps more than it has to."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sidecar.decide import step
from sidecar.decide.books import lent
from sidecar.decide.books.room import Room
from sidecar.decide.container.container import Container
from sidecar.decide.container.footprint import Reach
from sidecar.decide.moves import newborn_answers, starts
from sidecar.decide.moves import plan as plan_module
from sidecar.decide.moves.target import target
from sidecar.decide.orders import AnswerStart
from sidecar.decide.world import World, replace
from state.cpuset import EMPTY, CPUSet
from state.model import State
from tests.decide.lawbook import poollaws
from tests.decide.lawbook.faults import Fault
from tests.support.decide.histories import DYNAMIC


def gives_the_pool_away_at_once(patch: pytest.MonkeyPatch) -> None:
    """Take CPUs from the pool in force while others are still leaving those that replace them."""

    def without(before: State, world: World) -> World:
        return replace(world, state=replace(world.state, lent=EMPTY))

    patch.setattr(step, "with_lent", without)


def counts_what_cannot_be_entered(patch: pytest.MonkeyPatch) -> None:
    """Count a CPU that an owner is on, and that it does not have to leave with notice, as the pool's already."""
    patch.setattr(lent, "closed_to_some", lambda world, reached: EMPTY)


def lets_owners_onto_lent_cpus(patch: pytest.MonkeyPatch) -> None:
    """Send an owner to its grant, whatever the pool keeps of that as yet."""

    def sent(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
        return target(_without_lent(world), container, desired, reached)

    patch.setattr(plan_module, "target", sent)


def answers_starts_onto_lent_cpus(patch: pytest.MonkeyPatch) -> None:
    """Answer an owner's start whatever the pool keeps of its grant as yet."""
    honest = starts.answer_to

    def answer(world: World, container: Container, number: int) -> AnswerStart | None:
        is_owner = container.view.key in world.state.assignments
        return honest(_without_lent(world) if is_owner else world, container, number)

    patch.setattr(starts, "answer_to", answer)


def answers_births_onto_lent_cpus(patch: pytest.MonkeyPatch) -> None:
    """Answer an owner's birth whatever the pool keeps of its grant as yet."""

    def sent(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
        return target(_without_lent(world), container, desired, reached)

    patch.setattr(newborn_answers, "birthplace", sent)


def keeps_all_that_it_is_to_give(patch: pytest.MonkeyPatch) -> None:
    """Keep each CPU of the pool as long as any other is being left."""

    def missing(self: Room, now: CPUSet, others: Iterable[int]) -> CPUSet:
        return CPUSet(others)

    patch.setattr(Room, "missing_from", missing)


def _without_lent(world: World) -> World:
    return replace(world, state=replace(world.state, lent=EMPTY))


SETTINGS = tuple(each for each in DYNAMIC if each.shared_min > 1 or "strict-cpu-reservation" in each.options)
"""Those under which the pool is ever short: elsewhere the reserved CPU is enough."""

FAULTS = (
    Fault(gives_the_pool_away_at_once, poollaws.POOL_IN_FORCE, first=11),
    Fault(lets_owners_onto_lent_cpus, poollaws.NOT_ENTERED, first=8),
    Fault(answers_starts_onto_lent_cpus, poollaws.NOT_ENTERED, first=3172),
    Fault(keeps_all_that_it_is_to_give, poollaws.NOT_IN_VAIN, first=11),
)

HAND_FAULTS = (Fault(answers_births_onto_lent_cpus, poollaws.NOT_ENTERED, first=29),)
