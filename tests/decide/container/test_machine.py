"""The machine of a container: its tables are complete, and each rule does what its place demands."""

from __future__ import annotations

from itertools import product
from typing import get_args

import msgspec
import pytest

from sidecar.decide.container.container import Container, Standing, Wish
from sidecar.decide.container.grip import Grip
from sidecar.decide.container.grip_machine import GRIPS
from sidecar.decide.container.line import Barred, Doubt, Ends, Fault, FaultKind, Free, Line, Paused
from sidecar.decide.container.machine import LINES, after, first_seen
from sidecar.decide.container.news import (
    AnswersTold,
    CpusCame,
    Disputed,
    GripNews,
    HoldAnswered,
    HoldBegan,
    HoldGivenUp,
    LetGo,
    LineNews,
    Looked,
    News,
    OrderApplied,
    OrderFailed,
    OrderIneffective,
    OrderLost,
    OrderRefused,
    OrderSent,
    PauseEnded,
    SlipTold,
    StartNews,
    WriteDone,
    WriteSent,
    WriteUndone,
)
from sidecar.decide.container.place import Place
from sidecar.decide.container.start import Answered, Asks, Held, Plain, Start
from sidecar.decide.container.start_machine import STARTS
from sidecar.decide.facts import ContainerView, Phase
from sidecar.decide.moves.plan import may_order
from sidecar.decide.orders import ApplyCpuset, Update, WriteCpuset
from sidecar.decide.world import replace
from state.cpuset import CPUSet

EVERYWHERE, MINE, OTHER = CPUSet.parse("0-3"), CPUSet.parse("1-2"), CPUSet.of(3)
VIEW = ContainerView(id="a" * 64, name="rt", phase=Phase.RUNNING, started_at="1")
WISH = Wish(standing=Standing.MANAGED)
ORDER = ApplyCpuset(VIEW.key, 7, Update(cpus=MINE), live=True)
STRICT = ContainerView(id="a" * 64, name="rt", phase=Phase.CREATED, runtime="cpuset")


def seen(view: ContainerView = VIEW, *news: News) -> Container:
    """Return a container after its first look and this news."""
    container = first_seen(view, Place(EVERYWHERE, EVERYWHERE), WISH, 0, 1)
    for each in news:
        container = after(container, each)
    return container


def looked(cpus: CPUSet, view: ContainerView = VIEW) -> Looked:
    return Looked(view=view, place=Place(cpus, cpus), wish=WISH, began=5)


def test_the_tables_are_complete() -> None:
    """Every pair of a state and a fact has a rule, and no other pair has one."""
    assert set(LINES) == set(product(get_args(Line), get_args(LineNews)))
    assert set(STARTS) == set(product(get_args(Start), get_args(StartNews)))
    assert set(GRIPS) == set(product(get_args(Grip), get_args(GripNews)))


def test_every_rule_says_what_it_does() -> None:
    """The documentation prints it."""
    rules = {*LINES.values(), *STARTS.values(), *GRIPS.values()}
    assert [rule for rule in rules if not (rule.__doc__ or "").strip()] == []


def test_a_container_has_eighteen_fields() -> None:
    """All else that is known of one is in the World, or follows from these."""
    assert len(Container.__struct_fields__) == 18


@pytest.mark.parametrize(
    ("news", "line", "doubts", "fault"),
    [
        (OrderApplied(MINE, 9), Free(), (), None),
        (OrderRefused("no"), Free(), (), FaultKind.REFUSED),
        (OrderFailed("500", 9), Paused(7), (Doubt(MINE, Ends.LOOK),), FaultKind.FAILED),
        (OrderLost("late"), Paused(7), (Doubt(MINE, Ends.ORDER),), FaultKind.LOST),
        (OrderIneffective(OTHER, OTHER, "other", 9), Paused(7), (), FaultKind.INEFFECTIVE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_becomes_of_an_order(news: News, line: Line, doubts: tuple[Doubt, ...], fault: FaultKind | None) -> None:
    """There is one line for each way in which an order may end. What shows nothing makes no look old news."""
    container = seen(VIEW, OrderSent(ORDER), news)
    shows_nothing = isinstance(news, OrderRefused | OrderLost)
    assert (container.line, container.doubts, container.known) == (line, doubts, 1 if shows_nothing else 9)
    assert (container.fault.kind if container.fault else None) is fault


def test_a_refused_update_is_barred_until_its_own_pause_is_over() -> None:
    container = seen(VIEW, OrderSent(ORDER), OrderRefused("no"))
    assert container.barred == Barred(ORDER.update, 7)
    assert after(container, PauseEnded(6)).barred == container.barred
    assert after(container, PauseEnded(7)).barred is None


def test_only_a_look_ends_what_a_look_ends() -> None:
    """A lost order may still take effect: its doubt survives looks; a look settles the doubt of another order."""
    failed, lost = (seen(VIEW, OrderSent(ORDER), news) for news in (OrderFailed("500", 9), OrderLost("late")))
    assert after(failed, looked(EVERYWHERE)).doubts == ()
    assert after(lost, looked(EVERYWHERE)).doubts == (Doubt(MINE, Ends.ORDER),)
    again = after(after(lost, PauseEnded(7)), OrderSent(ORDER))
    assert after(again, OrderRefused("no")).doubts == lost.doubts
    other = after(after(lost, PauseEnded(7)), OrderSent(replace(ORDER, update=Update(cpus=OTHER))))
    both = after(other, OrderFailed("500", 9))
    assert both.doubts == (*lost.doubts, Doubt(OTHER, Ends.LOOK))
    assert after(both, looked(EVERYWHERE)).doubts == lost.doubts
    assert after(again, OrderApplied(MINE, 9)).doubts == ()


@pytest.mark.parametrize(
    "answer",
    [
        OrderApplied(MINE, 9),
        OrderRefused("no"),
        OrderFailed("500", 9),
        OrderLost("late"),
        OrderIneffective(OTHER, OTHER, "other", 9),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_a_look_ends_a_dispute(answer: News) -> None:
    """The answer may come from before the removal: no answer proves that the container exists."""
    disputed = seen(VIEW, OrderSent(ORDER), Disputed(), answer)
    assert disputed.is_disputed
    assert not may_order(replace(disputed, line=Free()))
    assert not after(disputed, looked(EVERYWHERE)).is_disputed


def test_a_look_that_overlaps_an_order_and_contradicts_it_leaves_both_in_doubt() -> None:
    container = seen(VIEW, OrderSent(ORDER), looked(OTHER), OrderApplied(MINE, 9))
    assert container.place == Place(MINE, MINE)
    assert container.doubts == (Doubt(OTHER, Ends.LOOK),)
    agreed = seen(VIEW, OrderSent(ORDER), looked(MINE), OrderApplied(MINE, 9))
    assert agreed.doubts == ()


def test_what_the_kernel_came_to_allow_is_no_fault() -> None:
    """An order without effect that took effect later."""
    container = seen(VIEW, OrderSent(ORDER), OrderIneffective(OTHER, OTHER, "confined", 9))
    assert container.fault == Fault(FaultKind.INEFFECTIVE, "confined")
    assert after(container, looked(MINE)).fault is None


def test_a_strict_start_from_the_first_look_to_the_next_one() -> None:
    """Its configured CPUs are not in its footprint; the CPUs of the answer are, until it was looked at."""
    asks = seen(STRICT)
    assert (asks.start, asks.footprint) == (Asks(), 0)
    held = after(asks, HoldBegan(3, 2))
    assert (held.start, held.footprint) == (Held(3), 0)
    answered = after(held, HoldAnswered(Update(cpus=MINE), is_refused=False))
    assert (answered.start, answered.footprint) == (Answered(MINE), MINE.mask)
    glanced = after(answered, looked(MINE, replace(STRICT, is_glance=True)))
    assert glanced.start == Answered(MINE)
    running = after(glanced, looked(MINE, replace(STRICT, phase=Phase.RUNNING, effective=MINE)))
    assert (running.start, running.footprint) == (Asks(), MINE.mask)


def test_where_the_kernel_shows_nothing_a_started_container_is_on_the_cpus_of_the_answer_until_an_order() -> None:
    answered = seen(STRICT, HoldBegan(3, 2), HoldAnswered(Update(cpus=MINE), is_refused=False))
    running = after(answered, looked(EVERYWHERE, replace(STRICT, phase=Phase.RUNNING, effective=None)))
    assert running.start == Answered(MINE)
    assert after(after(running, OrderSent(ORDER)), OrderApplied(MINE, 9)).start == Asks()


def test_an_answered_start_that_a_look_shows_not_running_has_failed() -> None:
    """Only a glance is possible before that: a restart of the sidecar knows no less."""
    answered = seen(STRICT, HoldBegan(3, 2), HoldAnswered(Update(cpus=MINE), is_refused=False))
    assert (after(answered, looked(MINE, STRICT)).start, after(answered, looked(MINE, STRICT)).footprint) == (Asks(), 0)


@pytest.mark.parametrize(
    ("news", "start", "reach"),
    [
        (HoldGivenUp(), Asks(), CPUSet()),
        (HoldAnswered(None, is_refused=True), Asks(), CPUSet()),
        (HoldAnswered(None, is_refused=False), Asks(), EVERYWHERE),
    ],
    ids=["let go", "refused", "not ours to place"],
)
def test_a_held_start_that_is_not_answered_with_cpus(news: News, start: Start, reach: CPUSet) -> None:
    """It does not start before it asks again; but if it was let go on unchanged, it may."""
    container = after(seen(STRICT, HoldBegan(3, 2)), news)
    assert (container.start, CPUSet.from_mask(container.footprint)) == (start, reach)


def test_a_start_that_was_answered_is_over_when_the_next_is_held() -> None:
    """The engine does one at a time."""
    container = seen(STRICT, HoldBegan(3, 2), HoldAnswered(Update(cpus=MINE), is_refused=False), HoldBegan(4, 3))
    assert (container.start, container.doubts) == (Held(4), ())


@pytest.mark.parametrize("is_lost_first", [True, False])
def test_a_held_start_has_no_cgroup_that_a_lost_hand_left_anywhere(*, is_lost_first: bool) -> None:
    """Two held starts would wait for each other else: no look is answered before they are."""
    told, lost, held = AnswersTold((MINE,), is_covered=True), LetGo(MINE), HoldBegan(3, 2)
    without = AnswersTold((), is_covered=False)
    container = seen(STRICT, told, *((lost, held) if is_lost_first else (held, lost)), without)
    assert container.footprint == 0


def test_what_a_lost_hand_may_have_moved_more_than_once_is_sure_of_nothing_until_a_look() -> None:
    """By one answer it lacks what it has by the next. What was on all of it all the while is sure of it."""
    moved = seen(VIEW, LetGo(MINE), LetGo(EVERYWHERE - MINE))
    assert moved.sure == CPUSet()
    assert after(moved, msgspec.structs.replace(looked(MINE), began=9)).sure == MINE


def test_what_a_lost_hand_guarded_is_sure_of_its_cpus() -> None:
    write = WriteCpuset(VIEW.key, 8, Update(cpus=MINE))
    guarded = seen(VIEW, AnswersTold((MINE,), is_covered=True), WriteSent(write), WriteDone(MINE, 6))
    lost = after(after(guarded, LetGo(MINE)), AnswersTold((), is_covered=False))
    assert (lost.place.seen, CPUSet.from_mask(lost.coming_by_hand)) == (MINE, MINE)
    assert after(lost, msgspec.structs.replace(looked(MINE), began=9)).sure == MINE
    assert guarded.sure == MINE


def test_what_the_kernel_did_not_give_of_a_write_counts_until_another_write_is_done() -> None:
    """It gives it as soon as it can: the CPUs may have come back online since."""
    first, second = (WriteCpuset(VIEW.key, number, Update(cpus=cpus)) for number, cpus in ((8, MINE), (9, OTHER)))
    told = AnswersTold((OTHER,), is_covered=True)
    moving = seen(VIEW, told, WriteSent(first), WriteDone(OTHER, 6), WriteSent(second))
    assert CPUSet.from_mask(moving.footprint) == MINE | OTHER
    assert moving.sure == CPUSet()
    assert CPUSet.from_mask(after(moving, WriteDone(OTHER, 7)).footprint) == OTHER


def test_what_the_hand_could_not_write_is_sure_of_nothing_until_a_look() -> None:
    """It may be another run already, which was born on fewer CPUs than the last look showed; also once cover ends."""
    write = WriteCpuset(VIEW.key, 8, Update(cpus=MINE))
    told, undone = AnswersTold((EVERYWHERE,), is_covered=True), WriteUndone("it is closed", is_missing=False, ended=6)
    closed = seen(VIEW, told, WriteSent(write), undone)
    uncovered = after(closed, AnswersTold((), is_covered=False))
    lost = after(after(closed, LetGo(EVERYWHERE)), AnswersTold((), is_covered=False))
    for each in (closed, uncovered, lost):
        assert CPUSet.from_mask(each.footprint) == EVERYWHERE
        assert each.sure == CPUSet()
        assert after(each, msgspec.structs.replace(looked(MINE), began=9)).sure == MINE


def test_what_slipped_from_the_hand_may_be_anywhere_until_a_look_that_began_later() -> None:
    """Whether it was guarded, never written, or closed before; and the engine moves it from then on."""
    write = WriteCpuset(VIEW.key, 8, Update(cpus=MINE))
    told, slipped = AnswersTold((MINE,), is_covered=True), SlipTold("it is closed", EVERYWHERE, 6)
    guarded = seen(VIEW, told, WriteSent(write), WriteDone(MINE, 5))
    for before in (guarded, seen(VIEW, told), after(guarded, slipped)):
        lost = after(before, slipped)
        assert CPUSet.from_mask(lost.footprint) == EVERYWHERE
        assert (lost.sure, lost.is_guarded, lost.is_by_hand) == (CPUSet(), False, False)
        older, newer = (after(lost, msgspec.structs.replace(looked(MINE), began=began)) for began in (5, 7))
        assert (older.sure, newer.sure) == (CPUSet(), MINE)


def test_what_slipped_before_it_was_covered_is_sure_of_nothing_until_it_is_written() -> None:
    """Also if it is let go meanwhile, as when the hand holds other answers."""
    slipped = seen(VIEW, SlipTold("it is closed", EVERYWHERE, 6))
    let_go = after(slipped, LetGo(MINE))
    write, told = WriteCpuset(VIEW.key, 8, Update(cpus=MINE)), AnswersTold((MINE,), is_covered=True)
    for before in (slipped, let_go):
        writing = after(after(before, told), WriteSent(write))
        for each in (before, writing):
            assert (CPUSet.from_mask(each.footprint), each.sure) == (EVERYWHERE, CPUSet())
        assert after(writing, WriteDone(MINE, 7)).sure == MINE


def test_a_write_that_was_done_before_its_group_slipped_guards_nothing() -> None:
    """The two are told by different tasks."""
    write = WriteCpuset(VIEW.key, 8, Update(cpus=MINE))
    told = AnswersTold((MINE,), is_covered=True)
    writing = seen(VIEW, told, WriteSent(write), SlipTold("it is closed", EVERYWHERE, 6))
    done = after(writing, WriteDone(MINE, 7))
    for each in (writing, done):
        assert CPUSet.from_mask(each.footprint) == EVERYWHERE
        assert (each.sure, each.is_guarded) == (CPUSet(), False)
    older, newer = (after(done, msgspec.structs.replace(looked(MINE), began=began)) for began in (5, 7))
    assert (older.sure, newer.sure) == (CPUSet(), MINE)


def test_a_write_that_fails_after_its_group_slipped_is_not_tried_again() -> None:
    """Each attempt would be told as another slip, and the next one follow it."""
    write = WriteCpuset(VIEW.key, 8, Update(cpus=MINE))
    told, undone = AnswersTold((MINE,), is_covered=True), WriteUndone("it is closed", is_missing=False, ended=5)
    closed = seen(VIEW, told, WriteSent(write), SlipTold("it is closed", EVERYWHERE, 6), undone)
    assert not closed.is_by_hand
    assert (CPUSet.from_mask(closed.footprint), closed.sure) == (EVERYWHERE, CPUSet())
    older, newer = (after(closed, msgspec.structs.replace(looked(MINE), began=began)) for began in (5, 7))
    assert (older.sure, newer.sure) == (CPUSet(), MINE)


def test_what_slipped_from_the_hand_may_be_on_cpus_that_come_online() -> None:
    told, came = AnswersTold((MINE,), is_covered=True), CPUSet.of(99)
    slipped = seen(VIEW, told, SlipTold("it is closed", EVERYWHERE, 6))
    widened = after(slipped, CpusCame(slipped.place, came, EVERYWHERE))
    assert CPUSet.from_mask(widened.footprint) == EVERYWHERE | came


def test_the_dead_never_start() -> None:
    answered = seen(STRICT, HoldBegan(3, 2), HoldAnswered(Update(cpus=MINE), is_refused=False))
    dead = ContainerView(id="a" * 64, name="rt", phase=Phase.DEAD, runtime="cpuset")
    assert after(answered, looked(MINE, dead)).start == Asks()


def test_a_glance_proves_no_runtime() -> None:
    """A container whose lock was held when it was first seen may be starting on an earlier sidecar's answer."""
    glance = ContainerView(id="a" * 64, name="rt", phase=Phase.CREATED, runtime="cpuset", is_glance=True)
    assert seen(glance).start == Plain()
    assert after(seen(glance), looked(EVERYWHERE, STRICT)).start == Asks()
