"""Planted faults of the hand: in what is held, in what is covered, and in the order of the two legs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pytest

from sidecar.decide import covering, sightings, step
from sidecar.decide.books import dynamic, takes
from sidecar.decide.container import machine
from sidecar.decide.container.container import Container
from sidecar.decide.container.footprint import Reach
from sidecar.decide.container.grip import Closed
from sidecar.decide.container.line import Sent
from sidecar.decide.container.news import OrderApplied
from sidecar.decide.facts import ContainerView, Phase, Purpose, TimerEnded
from sidecar.decide.hand_facts import AnswersHeld, HandFact, HandLost
from sidecar.decide.hand_state import HandState
from sidecar.decide.moves import newborn_answers, settled, signals, timers
from sidecar.decide.moves import plan as plan_module
from sidecar.decide.orders import Answers, HoldAnswers, Order, WriteCpuset
from sidecar.decide.world import World, replace
from sidecar.simulation.model_hand import ModelHand
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.model import Assignment
from tests.decide.lawbook import handlaws, laws, placelaws
from tests.decide.lawbook.faults import Fault
from tests.support.decide.handreality import HandReality


def enters_before_the_answers_are_held(patch: pytest.MonkeyPatch) -> None:
    nowhere = cached_property(lambda world: 0)
    nowhere.__set_name__(World, "newborns")
    patch.setattr(World, "newborns", nowhere)


def keeps_what_an_order_wrote(patch: pytest.MonkeyPatch) -> None:
    """Leave a container that is pinned by hand where an order put it before a look showed the pin."""
    patch.setattr(ModelHand, "_pin_of", lambda self, id: None)


def takes_sent_answers_for_held(patch: pytest.MonkeyPatch) -> None:
    honest = HandState.newborns

    def newborns(self: HandState, online: CPUSet) -> int:
        return honest(replace(self, held=self.sent or self.held, sent=None), online)

    patch.setattr(HandState, "newborns", newborns)


def answers_before_the_cpus_are_empty(patch: pytest.MonkeyPatch) -> None:
    def target(world: World, container: Container, desired: CPUSet, reached: Reach) -> CPUSet:
        return desired

    patch.setattr(newborn_answers, "birthplace", target)


def lets_others_be_born_where_an_owner_still_is(patch: pytest.MonkeyPatch) -> None:
    honest = newborn_answers.answers_of

    def answers_of(world: World) -> Answers:
        answers = honest(world)
        return replace(answers, others=world.state.vacated) if answers.others is not None else answers

    patch.setattr(newborn_answers, "answers_of", answers_of)


def guards_with_an_older_order(patch: pytest.MonkeyPatch) -> None:
    honest = ModelHand.write

    def write(self: ModelHand, id: str, cpus: CPUSet) -> CPUSet:
        before = self._guarded.get(id)
        effective = honest(self, id, cpus)
        if before is not None:
            self._guarded[id] = before
        return effective

    patch.setattr(ModelHand, "write", write)


def covers_what_it_does_not_watch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(covering, "parent_path", lambda parent: "")


def covers_what_may_name_any_parent(patch: pytest.MonkeyPatch) -> None:
    """Take what rests, and was only glanced at, for one that names no parent."""
    honest = World.parent_of
    patch.setattr(World, "parent_of", lambda world, container: honest(world, container) or "")


def is_alone_beside_what_may_start_anywhere(patch: pytest.MonkeyPatch) -> None:
    """Tell an owner that it is alone where nobody waits for another."""
    honest = World.may_run

    def may_run(self: World, container: Container) -> int:
        return container.coming if self.is_unmet(container) else honest(self, container)

    patch.setattr(World, "may_run", may_run)


def never_covers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(covering, "may_cover", lambda world, container: False)


def believes_in_a_lost_hand(patch: pytest.MonkeyPatch) -> None:
    honest = covering.after_hand

    def after_hand(world: World, fact: HandFact) -> tuple[World, tuple[Order, ...]]:
        return (world, ()) if isinstance(fact, HandLost) else honest(world, fact)

    patch.setattr(step, "after_hand", after_hand)


def overlooks_what_is_let_go(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HandState, "lets_go", lambda self, key: False)


def overlooks_what_is_stuck(patch: pytest.MonkeyPatch) -> None:
    honest = HandState.newborns
    patch.setattr(HandState, "newborns", lambda self, online: honest(replace(self, stuck=CPUSet()), online))


def records_before_it_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan_module, "is_written", lambda container, cpus: True)
    patch.setattr(plan_module, "Guarded", object)


def waits_for_the_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settled, "is_written", lambda container, cpus: False)
    patch.setattr(plan_module, "is_written", lambda container, cpus: container.place.configured == cpus)


def protects_no_owner_that_only_the_books_know(patch: pytest.MonkeyPatch) -> None:
    honest = newborn_answers.answers_of

    def answers_of(world: World) -> Answers:
        answers = honest(world)
        known: dict[ContainerKey, CPUSet | None] = {
            key: cpus for key, cpus in answers.own.items() if key in world.containers
        }
        return replace(answers, own=known, owned=CPUSet())

    patch.setattr(newborn_answers, "answers_of", answers_of)


def takes_the_record_for_the_kernel(patch: pytest.MonkeyPatch) -> None:
    """Believe that a container is where its record says, although it was written elsewhere meanwhile."""
    honest = machine.LINES[Sent, OrderApplied]

    def applied(container: Container, news: OrderApplied) -> Container:
        return replace(honest(replace(container, is_covered=False), news), is_covered=container.is_covered)

    patch.setitem(machine.LINES, (Sent, OrderApplied), applied)


def forgets_the_older_answer(patch: pytest.MonkeyPatch) -> None:
    """Leave out of a container's footprint what the hand answers until it holds the newest answers."""
    honest = HandState.answers_for
    patch.setattr(HandState, "answers_for", lambda self, key: honest(self, key)[-1:])


def confirms_answers_too_early(patch: pytest.MonkeyPatch) -> None:
    """Confirm answers when they are sent: newborns still have the older ones."""
    honest = HandReality.pull

    def pull(self: HandReality, order: HoldAnswers | WriteCpuset) -> None:
        honest(self, order)
        if self.hand and isinstance(order, HoldAnswers):
            self.hand_news.append(AnswersHeld(order.number, self.hand.parents, EMPTY, self.ticket()))

    patch.setattr(HandReality, "pull", pull)


def leaves_newborns_with_the_older_answer(patch: pytest.MonkeyPatch) -> None:
    """Take new answers for births to come, and leave those that were born before where they are."""
    honest = ModelHand.hold

    def hold(self: ModelHand, answers: Answers, *args: Any, **words: Any) -> CPUSet:
        before, self._newborn = self._newborn, {}
        self._released |= dict.fromkeys(before)
        stuck = honest(self, answers, *args, **words)
        for id in before:
            self._released.pop(id, None)
        self._newborn = before
        return stuck

    patch.setattr(ModelHand, "hold", hold)


def believes_looks_from_before_the_hand_was_lost(patch: pytest.MonkeyPatch) -> None:
    honest = covering.after_hand

    def after_hand(world: World, fact: HandFact) -> tuple[World, tuple[Order, ...]]:
        return honest(world, replace(fact, ended=0) if isinstance(fact, HandLost) else fact)

    patch.setattr(step, "after_hand", after_hand)


def leaves_what_it_found(patch: pytest.MonkeyPatch) -> None:
    """Leave each group that the hand found to its first write, also that of a container which rests."""
    honest = ModelHand.hold

    def hold(
        self: ModelHand, answers: Answers, parents: Any = (), home: Any = (), resting: Any = (), **words: Any
    ) -> CPUSet:
        return honest(self, answers, parents, home, **words)

    patch.setattr(ModelHand, "hold", hold)


def covers_without_a_look(patch: pytest.MonkeyPatch) -> None:
    """Cover a container as soon as its births are answered: its group may be older, and anywhere. It is left there too,
    or the hand would move most of these.
    """
    leaves_what_it_found(patch)
    honest = covering.told_of_answers

    def told_of_answers(world: World) -> World:
        since = world.hand.since if world.hand else 0
        seen = {key: replace(each, looked=since + 1) for key, each in world.containers.items()}
        return honest(replace(world, containers=seen))

    for module in (covering, newborn_answers, step):
        patch.setattr(module, "told_of_answers", told_of_answers)


def believes_that_what_is_called_created_rests(patch: pytest.MonkeyPatch) -> None:
    """Take a glance for a look: a start may be under way, in a group that is older than the hand. And leave that group
    to a first write: else the hand moves it, since its container is said to rest, and nothing shows.
    """
    honest = sightings.as_the_kernel_shows

    def as_the_kernel_shows(view: ContainerView, effective: CPUSet | None) -> ContainerView:
        shown = honest(view, effective)
        return replace(shown, phase=view.phase) if view.phase is Phase.CREATED else shown

    patch.setattr(sightings, "as_the_kernel_shows", as_the_kernel_shows)
    leaves_what_it_found(patch)


def overlooks_a_limit_in_force(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settled, "is_throttled", lambda world, container: False)


def forgets_the_record_of_a_newcomer(patch: pytest.MonkeyPatch) -> None:
    """Wait without end for a newcomer to last."""
    honest = timers.after_timer

    def after_timer(world: World, fact: TimerEnded) -> World:
        return world if fact.purpose is Purpose.RECORD else honest(world, fact)

    patch.setattr(step, "after_timer", after_timer)


def trusts_a_hand_that_does_not_answer_yet(patch: pytest.MonkeyPatch) -> None:
    honest = World.__dict__["is_blind"]
    patch.setattr(World, "is_blind", property(lambda world: world.hand is None and honest.func(world)))


def takes_one_that_is_missing_for_all(patch: pytest.MonkeyPatch) -> None:
    """Take the parent of one container that the hand did not find for one that is not watched."""

    def unwatched_after(world: World, hand: HandState, container: Container) -> tuple[str, ...]:
        is_missing = isinstance(container.grip, Closed) and container.grip.is_missing and not container.is_idle
        return (*hand.unwatched, container.view.cgroup_parent) if is_missing else hand.unwatched

    patch.setattr(covering, "_unwatched_after", unwatched_after)


def takes_a_name_for_the_container(patch: pytest.MonkeyPatch) -> None:
    """Answer a group by its name, wherever it is."""

    def key_of(self: ModelHand, id: str, parent: str = "") -> ContainerKey:
        return ContainerKey(self._engine, self._called.get(id, id))

    patch.setattr(ModelHand, "key_of", key_of)


def places_only_what_was_looked_at(patch: pytest.MonkeyPatch) -> None:
    """Leave aside what the books have of a container that was only glanced at, or that only they know."""
    honest = newborn_answers._place_of

    def place_of(world: World, key: ContainerKey) -> str | None:
        container = world.containers.get(key)
        return None if container is None or container.view.is_glance else honest(world, key)

    patch.setattr(newborn_answers, "_place_of", place_of)


def answers_a_take_in_the_books_as_if_it_were_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(newborn_answers, "_from_the_state", lambda state, grant: grant.cpus - state.lent or state.refuge)


def stays_at_rest_where_its_answer_does_not_lead(patch: pytest.MonkeyPatch) -> None:
    """Take where the engine would start a container at rest for where it would be born."""
    honest = takes.held

    def held(assignment: Assignment, container: Container) -> CPUSet:
        found, leaving = honest(assignment, container), assignment.leaving
        is_own = leaving is not None and container.written <= assignment.cpus | leaving.cpus
        if leaving is None or not container.is_idle or takes.is_inert(container) or not is_own:
            return found
        return assignment.cpus | (leaving.waiting & container.place.seen)

    for module in (takes, settled, signals, dynamic):
        patch.setattr(module, "held", held)


FAULTS = (
    Fault(forgets_the_record_of_a_newcomer, placelaws.AGREED, first=388),
    Fault(overlooks_a_limit_in_force, laws.IN_FORCE, first=81),
    Fault(enters_before_the_answers_are_held, handlaws.APART_FROM_NEWBORNS, first=1235),
    Fault(takes_sent_answers_for_held, handlaws.NEWBORNS, first=187),
    Fault(answers_before_the_cpus_are_empty, handlaws.BIRTHS, first=125),
    Fault(lets_others_be_born_where_an_owner_still_is, handlaws.BIRTHS, first=17),
    Fault(guards_with_an_older_order, laws.FOOTPRINTS, first=45),
    Fault(covers_what_it_does_not_watch, laws.FOOTPRINTS, first=45),
    Fault(covers_what_may_name_any_parent, laws.FOOTPRINTS, first=107),
    Fault(is_alone_beside_what_may_start_anywhere, laws.ALONE, first=125),
    Fault(never_covers, handlaws.COVERED, first=20),
    Fault(believes_in_a_lost_hand, laws.FOOTPRINTS, first=406),
    Fault(overlooks_what_is_let_go, laws.TOLD, first=267),
    Fault(overlooks_what_is_stuck, handlaws.NEWBORNS, first=205),
    Fault(records_before_it_writes, handlaws.KERNEL_FIRST, first=1),
    Fault(waits_for_the_record, laws.COMES_TO_REST, first=3),
    Fault(protects_no_owner_that_only_the_books_know, handlaws.PROTECTED, first=1),
    Fault(takes_the_record_for_the_kernel, placelaws.GUARDED, first=4569),
    Fault(forgets_the_older_answer, laws.FOOTPRINTS, first=40),
    Fault(confirms_answers_too_early, handlaws.NEWBORNS, first=85),
    Fault(leaves_newborns_with_the_older_answer, handlaws.NEWBORNS, first=85),
    Fault(trusts_a_hand_that_does_not_answer_yet, laws.UNSEEN, first=582),
    Fault(covers_without_a_look, laws.FOOTPRINTS, first=8783),
    Fault(takes_one_that_is_missing_for_all, handlaws.COVERED, first=334),
    Fault(takes_a_name_for_the_container, handlaws.ALIKE, first=56),
    Fault(places_only_what_was_looked_at, handlaws.ALIKE, first=125),
)

DYNAMIC_FAULTS = (
    Fault(answers_a_take_in_the_books_as_if_it_were_over, laws.NOTICES, first=4213),
    Fault(stays_at_rest_where_its_answer_does_not_lead, handlaws.BIRTHS, first=12001113),
)
"""Under the policy dynamic."""
