"""Cover begins with a look: a group that existed before the hand answered births may be anywhere."""

from __future__ import annotations

import pytest

from sidecar.decide.contacts import Connected, Contact, Ready
from sidecar.decide.container.container import Container, Standing, Wish
from sidecar.decide.container.grip import Closed, Guarded, Loose, Writing
from sidecar.decide.container.machine import after, first_seen
from sidecar.decide.container.news import AnswersTold, LetGo, Looked, OrderApplied, OrderSent, WriteSent, WriteUndone
from sidecar.decide.container.place import Place
from sidecar.decide.covering import after_hand, after_writes, birthplaces, covered, told_of_answers
from sidecar.decide.facts import ContainerView, EngineInfo, Phase
from sidecar.decide.hand_facts import AnswersHeld, CpusetWritten, HandLost, WriteFailed
from sidecar.decide.hand_state import HandState
from sidecar.decide.moves.newborn_answers import standing_answers
from sidecar.decide.orders import Answers, ApplyCpuset, HoldAnswers, LookAgain, Order, Update, WriteCpuset
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.sightings import differs, sighted
from sidecar.decide.world import World, replace
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.model import Originals, State
from state.topology import uniform
from tests.support.decide.contacts import with_info

KEY = ContainerKey("docker", "a" * 64)
POOL, OTHER = CPUSet.of(0, 1), CPUSet.of(2)
SINCE = 10


def _seen(began: int, *, is_glance: bool = False) -> Container:
    view = ContainerView(engine="docker", id=KEY.id, name="c", phase=Phase.RUNNING, cpuset="2", is_glance=is_glance)
    return first_seen(view, Place(OTHER, OTHER), Wish(standing=Standing.MANAGED), 0, began)


def _told(container: Container) -> Container:
    """Return the container after the answers of a hand that answers births since ticket 10."""
    held = HoldAnswers(1, Answers(others=POOL, own={KEY: POOL}))
    hand = HandState(parents=("/docker",), since=SINCE, held=held, home=("/docker",), met=("/docker",))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    world = replace(world, hand=hand)
    return told_of_answers(_with(world, container)).containers[KEY]


def _with(world: World, container: Container) -> World:
    return replace(world, containers={KEY: container})


@pytest.mark.parametrize(("began", "is_covered"), [(SINCE - 1, False), (SINCE, False), (SINCE + 1, True)])
def test_cover_begins_with_a_look_that_is_later_than_the_hand(began: int, is_covered: bool) -> None:
    assert _told(_seen(began)).is_covered is is_covered


def test_what_cannot_be_written_may_be_where_it_is_configured_until_a_look() -> None:
    """It may have started again, unseen, and its birth could not be written either."""
    seen = replace(_told(_seen(SINCE + 1)), place=Place(POOL, OTHER))
    assert CPUSet.from_mask(seen.footprint) == POOL
    writing = after(seen, WriteSent(WriteCpuset(KEY, 1, Update(cpus=POOL))))
    closed = after(writing, WriteUndone("it is read-only", is_missing=False, ended=SINCE + 3))
    assert CPUSet.from_mask(closed.footprint) == POOL | OTHER
    older, later = (
        after(closed, Looked(view=seen.view, place=seen.place, wish=seen.wish, began=began))
        for began in (SINCE + 2, SINCE + 4)
    )
    assert CPUSet.from_mask(older.footprint) == POOL | OTHER
    assert CPUSet.from_mask(later.footprint) == POOL


@pytest.mark.parametrize(("is_closed", "is_believed"), [(False, False), (True, True)])
def test_where_nothing_shows_an_order_the_engine_is_believed_of_what_the_hand_cannot_write(
    is_closed: bool, is_believed: bool
) -> None:
    """Else the same would be ordered again, and again. What the hand moves is where the hand put it."""
    seen = replace(_told(_seen(SINCE + 1)), place=Place(OTHER, OTHER))
    if is_closed:
        writing = after(seen, WriteSent(WriteCpuset(KEY, 1, Update(cpus=POOL))))
        seen = after(writing, WriteUndone("it has no cgroup", is_missing=True, ended=SINCE + 2))
    sent = after(seen, OrderSent(ApplyCpuset(KEY, 2, Update(cpus=POOL), live=True)))
    applied = after(sent, OrderApplied(None, SINCE + 3))
    assert (applied.place.seen == POOL) is is_believed
    assert CPUSet.from_mask(applied.footprint) >= (POOL | OTHER if is_closed else OTHER)


def test_the_outcome_of_an_order_begins_no_cover() -> None:
    """It tells what the engine has configured, and not where a group is that was born before."""
    sent = after(_seen(SINCE - 1), OrderSent(ApplyCpuset(KEY, 1, Update(cpus=POOL), live=True)))
    applied = after(sent, OrderApplied(None, SINCE + 1))
    assert applied.known > SINCE
    assert not _told(applied).is_covered


def test_a_glance_begins_no_cover() -> None:
    assert not _told(_seen(SINCE + 1, is_glance=True)).is_covered


RESTING = ContainerView(engine="docker", id=KEY.id, name="c", phase=Phase.CREATED, is_glance=True)


@pytest.mark.parametrize(("began", "is_covered"), [(SINCE, False), (SINCE + 1, True)])
def test_a_glance_at_what_rests_begins_cover_if_it_is_later_than_the_hand(began: int, is_covered: bool) -> None:
    """Where the books have its parent. The kernel shows with the glance that it has no group."""
    assert _told_of_resting(first_seen(RESTING, _ANYWHERE, _MANAGED, 0, began)).is_covered is is_covered


def test_after_a_glance_the_outcome_of_an_order_begins_no_cover_either() -> None:
    """The lock was free in between: a start that is over by now has put it where no hand answered."""
    glanced = first_seen(RESTING, _ANYWHERE, _MANAGED, 0, SINCE - 1)
    sent = after(glanced, OrderSent(ApplyCpuset(KEY, 1, Update(cpus=POOL), live=False)))
    applied = after(sent, OrderApplied(None, SINCE + 1))
    assert applied.known > SINCE
    assert not _told_of_resting(applied).is_covered


_ANYWHERE = Place(CPUSet.of(0, 1, 2, 3), CPUSet.of(0, 1, 2, 3))
_MANAGED = Wish(standing=Standing.MANAGED)


def _told_of_resting(container: Container) -> Container:
    """Return the same as `_told`, where the books know that it names no parent."""
    held = HoldAnswers(1, Answers(others=POOL, own={KEY: POOL}))
    hand = HandState(parents=("/docker",), since=SINCE, held=held, home=("/docker",), met=("/docker",))
    state = State(policy="static").remembering(KEY, Originals(cgroup_parent=""))
    world = begin(state, uniform(cores=4), Settings(policy=PolicyName.STATIC))
    return told_of_answers(_with(replace(world, hand=hand), container)).containers[KEY]


@pytest.mark.parametrize(
    ("parent", "is_rootless", "places"),
    [
        pytest.param(None, False, (), id="not known"),
        pytest.param("", False, ("/docker", "/home"), id="none: the defaults, and where those were found"),
        pytest.param("/named", False, ("/named",), id="a path"),
        pytest.param("a-b.slice", False, ("/a.slice/a-b.slice",), id="a slice"),
        pytest.param("a-b.slice", True, ("/a.slice/a-b.slice", "/user/a.slice/a-b.slice"), id="a user's slice"),
        pytest.param("/elsewhere", False, (), id="not watched"),
    ],
)
def test_the_books_and_the_hand_have_the_places_where_a_container_is_born(
    parent: str | None, is_rootless: bool, places: tuple[str, ...]
) -> None:
    """What may be covered there is looked for there."""
    named = ("/named", "/a.slice/a-b.slice", "/user/a.slice/a-b.slice")
    held = HoldAnswers(1, Answers(others=POOL), parents=named)
    hand = HandState(parents=("/docker", *named), since=SINCE, held=held, homes={"docker": ("/home",)})
    originals = Originals() if parent is None else Originals(cgroup_parent=parent)
    world = begin(State(policy="static").remembering(KEY, originals), uniform(cores=4), Settings())
    info = EngineInfo(name="docker", version="1", api_version="1.41", ncpu=4, is_rootless=is_rootless)
    world = with_info(world, info)
    assert birthplaces(replace(world, hand=hand), KEY) == places
    assert birthplaces(world, KEY) == ()


def test_an_outdated_look_is_repeated_while_it_is_unsure_where_the_hand_put_it() -> None:
    """Else the doubt would last until an inventory."""
    seen = _seen(SINCE)
    world = _with(begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC)), seen)
    assert not differs(world, seen.view)
    unsure = _with(world, after(seen, LetGo(CPUSet.of(3), SINCE)))
    assert differs(unsure, seen.view)


@pytest.mark.parametrize(
    ("phase", "is_seen", "is_over"),
    [(Phase.RUNNING, True, False), (Phase.EXITED, True, True), (None, True, True), (None, False, False)],
)
def test_the_hand_is_told_which_runs_are_over(phase: Phase | None, *, is_seen: bool, is_over: bool) -> None:
    """Of all containers that it may have written: those that are gone too, although no answer names them any more. What
    no inventory has shown yet may run.
    """
    held = HoldAnswers(1, Answers(others=POOL, own={KEY: POOL}))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    world = replace(world, hand=HandState(parents=("/docker",), since=SINCE, held=held))
    world = world.with_contact("docker", Contact(readiness=Ready(0) if is_seen else Connected(0)))
    if phase is not None:
        view = ContainerView(engine="docker", id=KEY.id, name="c", phase=phase)
        world = _with(world, first_seen(view, Place(POOL, POOL), Wish(standing=Standing.MANAGED), 0, SINCE + 1))
    _, [order] = standing_answers(world)
    assert order.resting == ({KEY} if is_over else frozenset())


def test_what_is_left_to_its_first_write_may_be_where_the_answer_for_all_others_put_it() -> None:
    """Its group is older than the hand, and was moved as one that is not known, after the last look at it."""
    held, sent = HoldAnswers(1, Answers(others=POOL)), HoldAnswers(2, Answers(others=POOL, own={KEY: OTHER}))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    world = _with(world, _seen(SINCE + 1))
    world = replace(world, hand=HandState(parents=("/docker",), since=SINCE, held=held, sent=sent))
    world, looks = after_hand(world, AnswersHeld(2, ("/docker",), CPUSet(), 20))
    assert CPUSet.from_mask(world.containers[KEY].footprint) == POOL | OTHER
    assert looks == (LookAgain(KEY),)
    world = sighted(world, replace(_seen(0).view, effective=OTHER), 21)
    assert CPUSet.from_mask(world.containers[KEY].footprint) == OTHER


@pytest.mark.parametrize("phase", [Phase.EXITED, Phase.RUNNING])
def test_when_the_hand_lets_all_go_each_may_be_where_it_was_born_until_a_look(phase: Phase) -> None:
    """It may have started unseen, as while its engine is away, and what is inside its group may be in the way of giving
    it back.
    """
    answers = Answers(others=POOL, own={KEY: POOL})
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    seen = _seen(SINCE + 1)
    world = _with(world, first_seen(replace(seen.view, phase=phase), seen.place, seen.wish, 0, SINCE + 1))
    hand = HandState(parents=("/docker",), since=SINCE, held=HoldAnswers(1, answers), sent=HoldAnswers(2, Answers()))
    world, looks = after_hand(replace(world, hand=hand), AnswersHeld(2, ("/docker",), CPUSet(), 20))
    assert CPUSet.from_mask(world.containers[KEY].footprint) == POOL | OTHER
    assert looks == (LookAgain(KEY),)
    world = sighted(world, replace(seen.view, phase=phase, effective=None), 21)
    assert CPUSet.from_mask(world.containers[KEY].footprint) == OTHER


def test_what_rests_and_is_let_go_alone_counts_where_it_is_pinned() -> None:
    """Nothing would be granted on all CPUs of the pool until a look, which another program may keep waiting."""
    held = HoldAnswers(1, Answers(others=POOL, own={KEY: POOL}))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    seen = _seen(SINCE + 1)
    world = _with(world, first_seen(replace(seen.view, phase=Phase.EXITED), seen.place, seen.wish, 0, SINCE + 1))
    sent = HoldAnswers(2, Answers(others=POOL, own={KEY: None}))
    world = replace(world, hand=HandState(parents=("/docker",), since=SINCE, held=held, sent=sent))
    world, looks = after_hand(world, AnswersHeld(2, ("/docker",), CPUSet(), 20))
    assert CPUSet.from_mask(world.containers[KEY].footprint) == OTHER
    assert looks == ()


@pytest.mark.parametrize("stuck", [CPUSet(), POOL])
def test_one_that_is_left_alone_may_be_where_newborns_are_stuck_until_a_look(stuck: CPUSet) -> None:
    """It may have been born before the hand was told, and while its engine calls it created no look shows that."""
    created = ContainerView(engine="docker", id=KEY.id, name="c", phase=Phase.CREATED, cpuset="2")
    held, sent = HoldAnswers(1, Answers(others=POOL)), HoldAnswers(2, Answers(others=POOL, own={KEY: None}))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    world = _with(world, first_seen(created, Place(OTHER, OTHER), Wish(standing=Standing.STRANGER), 0, SINCE + 1))
    world = replace(world, hand=HandState(parents=("/docker",), since=SINCE, held=held, sent=sent))
    world, looks = after_hand(world, AnswersHeld(2, ("/docker",), stuck, 20))
    assert CPUSet.from_mask(world.may_run(world.containers[KEY])) == stuck | OTHER
    assert looks == ((LookAgain(KEY),) if stuck else ())
    world, _ = after_hand(world, AnswersHeld(2, ("/docker",), CPUSet(), 21))
    assert CPUSet.from_mask(world.may_run(world.containers[KEY])) == stuck | OTHER, "no look has shown it elsewhere"
    world = sighted(world, replace(created, phase=Phase.RUNNING, effective=OTHER), 22)
    assert CPUSet.from_mask(world.may_run(world.containers[KEY])) == OTHER


def test_after_a_cpu_went_offline_newborns_may_be_anywhere_until_the_answers_are_held_again() -> None:
    """A group that had this CPU alone has those of the group above it now."""
    online, fewer = CPUSet.of(0, 1, 2, 3), CPUSet.of(0, 1, 2)
    before = HoldAnswers(1, Answers(others=POOL, owned=OTHER), online=online)
    hand = HandState(held=before)
    assert CPUSet.from_mask(hand.newborns(online)) == CPUSet.of(0, 1, 3)
    assert CPUSet.from_mask(hand.newborns(fewer)) == fewer
    assert CPUSet.from_mask(replace(hand, sent=replace(before, number=2, online=fewer)).newborns(fewer)) == fewer
    assert CPUSet.from_mask(replace(hand, held=replace(before, online=fewer)).newborns(fewer)) == POOL


def _in(found: str, key: ContainerKey, *, is_missing: bool, name: str = "c") -> Container:
    """Return a running container that a look found below this parent; if it is missing, the hand did not find it."""
    view = ContainerView(engine="docker", id=key.id, name=name, phase=Phase.RUNNING, cpuset="2", found_below=found)
    seen = first_seen(view, Place(OTHER, OTHER), Wish(standing=Standing.MANAGED), 0, SINCE + 1)
    return replace(seen, grip=Closed("it has no cgroup", is_missing=True)) if is_missing else seen


@pytest.mark.parametrize(
    ("found", "other", "unwatched"),
    [
        ("/docker", "", ()),
        ("/elsewhere", "/docker", ("",)),
        ("", "/docker", ()),
        ("", "/elsewhere", ("",)),
        ("", "", ("",)),
    ],
)
def test_one_that_the_hand_did_not_find_uncovers_others_only_if_it_is_elsewhere(
    found: str, other: str, unwatched: tuple[str, ...]
) -> None:
    """While a container ends, it has no cgroup, and the engine still tells that it runs: tenants whose containers come
    and go would else end the cover of all that name no parent.
    """
    second = ContainerKey("docker", "b" * 64)
    hand = HandState(parents=("/docker",), since=SINCE, home=("/docker",), met=("/docker",))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    known = {KEY: _in(found, KEY, is_missing=True), second: _in(other, second, is_missing=False, name="d")}
    world = covered(replace(world, hand=hand, containers=known), KEY, SINCE + 2)
    assert world.hand is not None
    assert world.hand.unwatched == unwatched


def test_what_is_seen_below_a_watched_parent_shows_that_it_is_watched() -> None:
    """However it was taken for another: the next look at any of its containers puts that right."""
    hand = HandState(parents=("/docker",), since=SINCE, home=("/docker",), met=("/docker",), unwatched=("", "/x"))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    world = replace(world, hand=hand, containers={KEY: _in("/docker", KEY, is_missing=False)})
    found = covered(world, KEY, SINCE + 2).hand
    assert found is not None
    assert found.unwatched == ("/x",)


def test_one_that_the_hand_did_not_find_is_written_again_once_a_look_finds_it_where_the_hand_watches() -> None:
    """The hand may guard it there, on CPUs of before: no order of the engine would ever take effect."""
    hand = HandState(parents=("/docker",), since=SINCE, home=("/docker",), met=("/docker",))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    world = replace(world, hand=hand, containers={KEY: _in("/docker", KEY, is_missing=True)})
    grip = covered(world, KEY, SINCE + 2).containers[KEY].grip
    assert isinstance(grip, Loose)
    assert not grip.unsure


def test_outcomes_of_writes_in_one_burst_are_taken_in_turn() -> None:
    """As if each came by itself: also one that failed, one that is old, and one that was told twice."""
    keys = [ContainerKey("docker", f"{number}" * 64) for number in range(4)]
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    for number, key in enumerate(keys):
        view = ContainerView(engine="docker", id=key.id, name="c", phase=Phase.RUNNING)
        seen = first_seen(view, Place(OTHER, OTHER), Wish(standing=Standing.MANAGED), number, SINCE)
        known = after(seen, AnswersTold((POOL,), is_covered=True))
        world = world.with_container(after(known, WriteSent(WriteCpuset(key, number, Update(cpus=POOL)))))
    facts: list[CpusetWritten | WriteFailed] = [
        CpusetWritten(keys[0], 0, POOL, 20),
        WriteFailed(keys[1], 1, "it is gone", is_gone=True, ended=21),
        CpusetWritten(keys[2], 7, POOL, 22),
        CpusetWritten(keys[0], 0, OTHER, 23),
        WriteFailed(keys[3], 3, "permission denied", is_gone=False, ended=24),
        CpusetWritten(ContainerKey("docker", "f" * 64), 9, POOL, 25),
    ]
    one_by_one, asked = world, list[Order]()
    for fact in facts:
        one_by_one, looks = after_hand(one_by_one, fact)
        asked += looks
    at_once, looks = after_writes(world, facts)
    assert (at_once.containers, list(looks)) == (one_by_one.containers, asked)
    assert [each.container for each in looks if isinstance(each, LookAgain)] == [keys[1], keys[3]]
    grips = [type(at_once.containers[key].grip) for key in keys]
    assert grips == [Guarded, Closed, Writing, Closed]
    assert after_writes(at_once, facts)[0] is at_once


@pytest.mark.parametrize(
    ("newest", "is_sure"),
    [
        (Answers(others=POOL, owned=OTHER), True),
        (Answers(others=POOL, own={KEY: POOL}), True),
        (Answers(), True),
        (Answers(others=POOL), False),
    ],
)
def test_what_the_hand_does_not_know_may_be_where_others_owned_cpus_till_now(newest: Answers, is_sure: bool) -> None:
    """Where another program wrote it, which no look showed: since answers that allow it again, until a later look."""
    held = HoldAnswers(1, Answers(others=POOL, owned=OTHER))
    hand = HandState(parents=("/docker",), since=SINCE, held=held, sent=HoldAnswers(2, newest), home=("/docker",))
    world = replace(begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC)), hand=hand)
    seen = replace(_seen(SINCE + 1), place=Place(POOL, POOL))
    told = told_of_answers(_with(world, seen))
    assert (told.sure_of(told.containers[KEY]) == POOL) is is_sure
    moved, looks = after_hand(told, AnswersHeld(2, ("/docker",), CPUSet(), SINCE + 3))
    assert (moved.sure_of(moved.containers[KEY]) == POOL) is is_sure
    assert is_sure or (LookAgain(KEY) in looks and moved.containers[KEY].footprint & OTHER.mask)
    shown = Looked(view=seen.view, place=seen.place, wish=seen.wish, began=SINCE + 4)
    assert moved.sure_of(after(moved.containers[KEY], shown)) == POOL
    lost, _ = after_hand(told, HandLost("it is gone", SINCE + 3))
    assert lost.sure_of(lost.containers[KEY]) <= (POOL if is_sure else CPUSet())


@pytest.mark.parametrize("is_glance", [False, True])
@pytest.mark.parametrize(
    ("held", "sent", "is_covered"),
    [
        pytest.param(("/late",), None, True, id="no answers are under way"),
        pytest.param(("/late",), ("/late",), True, id="it stays"),
        pytest.param(("/late",), ("late",), True, id="it stays, by another name"),
        pytest.param((), (), True, id="a default, which nothing names"),
        pytest.param(("/late",), (), False, id="it was told to leave it"),
    ],
)
def test_a_parent_that_the_hand_was_told_to_leave_is_none_that_it_watches(
    held: tuple[str, ...], sent: tuple[str, ...] | None, is_covered: bool, is_glance: bool
) -> None:
    """Nothing named it just now: a container that names it, as a look shows meanwhile, may be born unanswered."""
    view = replace(_seen(0, is_glance=is_glance).view, cgroup_parent="/late", found_below="/late")
    answers = Answers(others=POOL, own={KEY: POOL})
    hand = HandState(parents=("/docker", "/late"), since=SINCE, held=HoldAnswers(1, answers, parents=held))
    hand = hand if sent is None else replace(hand, sent=HoldAnswers(2, answers, parents=sent))
    world = begin(State(policy="static"), uniform(cores=4), Settings(policy=PolicyName.STATIC))
    seen = first_seen(view, Place(OTHER, OTHER), Wish(standing=Standing.MANAGED), 0, SINCE + 1)
    world = _with(replace(world, hand=hand), seen)
    assert covered(world, KEY, SINCE + 1).containers[KEY].is_covered is is_covered
    assert told_of_answers(world).containers[KEY].is_covered is is_covered


@pytest.mark.parametrize(("home", "is_watched"), [((), True), (("/docker",), False), (("/docker", "/other"), True)])
def test_a_default_that_the_hand_was_told_to_leave_is_watched_once_it_is_told_that_it_is_one(
    home: tuple[str, ...], is_watched: bool
) -> None:
    """All that engines may have are watched until one is found; an engine may be told another one later."""
    found = {"docker": ("/docker", "/other")}
    hand = HandState(parents=("/docker", "/other"), met=("/docker", "/other"), homes=found)
    order = HoldAnswers(1, Answers(others=POOL), home=home)
    assert replace(hand, held=order).watches_home("docker") is is_watched
    assert replace(hand, held=HoldAnswers(1, Answers(others=POOL)), sent=order).watches_home("docker") is is_watched
    kept = replace(order, keeps_defaults=True)
    assert replace(hand, held=kept).watches_home("docker")
