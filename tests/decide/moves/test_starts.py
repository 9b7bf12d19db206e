"""Strict start, told as stories: what a runtime that holds a start is answered, and when."""

from __future__ import annotations

import pytest

from sidecar.decide.container.line import Doubt, Ends
from sidecar.decide.facts import Phase, Purpose
from sidecar.decide.orders import AnswerStart, ApplyCpuset, LookAgain, StartTimer
from sidecar.words.refusals import sentence
from state.cpuset import CPUSet
from tests.decide.lawbook.left_faults import disputes_what_is_held
from tests.support.decide import strictstarts
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, cpus, where


def strict(story: Story, *, exclusive: int = 0, quota: int = 0) -> Real:
    """Create a container whose runtime asks, without a look yet."""
    real = story.create({"cpuset.exclusive": str(exclusive)} if exclusive else {}, quota=quota)
    real.asks = True
    return real


def answered(story: Story) -> list[AnswerStart]:
    return [order for order in story.given if isinstance(order, AnswerStart)]


def test_a_start_waits_until_its_whole_grant_is_free() -> None:
    """A plain container runs everywhere: it leaves first, and then the start is answered with all of its CPUs."""
    story = Story()
    plain = story.create({})
    story.start(plain)
    story.begin_look(plain.key)
    story.deliver_look(0)
    while story.flight:
        story.deliver(0, "ok")
    real = strict(story, exclusive=2, quota=200_000)
    strictstarts.hold(story, real)
    assert answered(story) == []
    assert [order.container for order in story.flight] == [plain.key]
    story.deliver(0, "ok")
    (answer,) = answered(story)
    assert answer.update is not None
    assert (answer.update.cpus, answer.update.cpu_quota, answer.exclusive) == (cpus("1-2"), -1, True)


def test_a_plain_start_gets_the_pool_at_once() -> None:
    story = Story()
    real = strict(story)
    strictstarts.hold(story, real)
    (answer,) = answered(story)
    assert answer.update is not None
    assert (answer.update.cpus, answer.exclusive, answer.refusal) == (cpus("0-7"), False, None)


def test_one_that_is_refused_does_not_start_whatever_its_label_says() -> None:
    """Sharing is no alternative here: a container that may share uses another runtime."""
    story = Story()
    strictstarts.hold(story, strict(story, exclusive=8))
    (answer,) = answered(story)
    assert answer.update is None
    assert answer.refusal is not None
    assert "asked for 8 exclusive CPUs, but this machine can give 7 at most" in sentence(answer.refusal)


def test_an_unknown_label_does_not_start() -> None:
    """It may have been meant to ask for CPUs."""
    story = Story()
    real = story.create({"cpuset-exclusive": "2"})
    real.asks = True
    story.begin_look(real.key)
    while story.go_on():
        pass
    strictstarts.hold(story, real)
    (answer,) = answered(story)
    assert answer.refusal is not None
    assert sentence(answer.refusal) == "unknown label 'cpuset-exclusive'; did you mean 'cpuset.exclusive'?"


def test_an_unknown_label_of_one_that_runs_does_not_start_again() -> None:
    """It was started before its runtime asked. A start that is held is no run, whether its end was seen or not."""
    story = Story()
    real = story.create({"cpuset-exclusive": "2"})
    story.start(real)
    real.asks = True
    story.look(real)
    assert story.known(real).wish.refusal is None
    story.end(real)
    assert story.known(real).wish.refusal is not None
    story.again(real)
    story.stop(real)
    strictstarts.hold(story, real)
    assert answered(story)[0].refusal is not None


def test_a_start_that_takes_long_does_not_lose_its_cpus_meanwhile() -> None:
    """However short its linger is: that counts from the end of a failed start."""
    story = Story(linger_seconds=0.0)
    real = strict(story, exclusive=2)
    strictstarts.hold(story, real)
    story.take_inventory()
    lingering = [order for order in story.given if isinstance(order, StartTimer) and order.purpose is Purpose.LINGER]
    assert lingering == []
    strictstarts.go_on(story, real, fails=True)
    story.begin_look(real.key)
    while story.go_on():
        pass
    assert real.key not in story.world.state.assignments
    assert [order.purpose for order in story.given if isinstance(order, StartTimer)] == [Purpose.LINGER]


def test_two_that_are_held_do_not_wait_for_each_other() -> None:
    """Each can start only on the CPUs of its answer: their configured cpusets, all CPUs, block nothing."""
    story = Story()
    one, two = strict(story, exclusive=2), strict(story, exclusive=2)
    strictstarts.hold(story, one)
    strictstarts.hold(story, two)
    assert [answer.update and str(answer.update.cpus) for answer in answered(story)] == ["1-2", "3-4"]


def _held_and_disputed() -> tuple[Story, list[Real]]:
    """Have two strict starts held since an earlier life of the daemon. The new one's inventory was overtaken by a
    removal, so it is not sure that the containers exist.
    """
    story = Story()
    pair, other = [strict(story, exclusive=2) for _ in range(2)], story.arrive("other", starts=False)
    for real in pair:
        real.held = story.ticket()
    story.crash([True], is_slow=True)
    story.remove(other)
    story.begin_look(other.key)
    story.deliver_look(len(story.looks) - 1)
    story.deliver_inventory(0)
    assert all(story.known(real).is_disputed for real in pair)
    return story, pair


def test_a_start_that_is_held_proves_that_its_container_exists() -> None:
    """No look can: its lock is held. So the doubts of two would make them wait for each other."""
    story, pair = _held_and_disputed()
    strictstarts.ask_again(story)
    assert not any(story.known(real).is_disputed for real in pair)
    story.take_inventory()
    assert [answer.update and str(answer.update.cpus) for answer in answered(story)] == ["1-2", "3-4"]


def test_two_that_are_held_and_disputed_wait_for_each_other_if_a_hold_proves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disputes_what_is_held(monkeypatch)
    story, _ = _held_and_disputed()
    strictstarts.ask_again(story)
    story.take_inventory()
    assert answered(story) == []


def test_two_behind_which_an_order_waits_do_not_wait_for_each_other() -> None:
    """What a killed daemon left in the engine takes effect after the start. It may lead anywhere, so the second one
    waits for a look at the first.
    """
    story = Story()
    pair = [story.arrive(name, 2) for name in ("one", "two")]
    story.settle()
    story.crash([True])
    for real in pair:
        real.asks = True
        story.stop(real)
        real.held = story.ticket()
    story.crash([True])
    assert all(story.known(real).doubts == (Doubt(cpus("0-7"), Ends.ENGINE),) for real in pair)
    strictstarts.ask_again(story)
    assert [answer.container for answer in answered(story)] == [pair[0].key]
    strictstarts.go_on(story, pair[0], fails=False)
    story.look(pair[0])
    assert [answer.container for answer in answered(story)] == [real.key for real in pair]


def test_nothing_is_ordered_while_a_start_is_held() -> None:
    """The engine would not carry out the order before the start is over, and the start waits for the answer."""
    story = Story()
    plain = story.create({})
    story.start(plain)
    story.begin_look(plain.key)
    story.deliver_look(0)
    while story.flight:
        story.deliver(0, "ok")
    real = strict(story, exclusive=1)
    strictstarts.hold(story, real)
    story.take_inventory()
    orders = [order for order in story.given if isinstance(order, ApplyCpuset)]
    assert real.key not in {order.container for order in orders}
    assert story.known(real).view.phase is Phase.CREATED


def test_a_start_that_is_let_go_is_forgotten() -> None:
    """The runtime timed out and refused it: its configured cpuset counts no more than before."""
    story = Story()
    plain = story.create({}, cpuset="1")
    story.start(plain)
    story.begin_look(plain.key)
    story.deliver_look(0)
    real = strict(story, exclusive=1)
    strictstarts.hold(story, real)
    assert [answer.update and str(answer.update.cpus) for answer in answered(story)] == ["2"]
    other = strict(story, exclusive=7)
    strictstarts.hold(story, other)
    assert answered(story)[-1].refusal
    strictstarts.let_go(story, other)
    assert not story.known(other).is_held


def test_a_lost_order_does_not_keep_a_container_from_lingering() -> None:
    """Only an answered start may be under way: a container that ended rests, whatever happened to an order."""
    story = Story()
    real = strict(story, exclusive=2)
    strictstarts.hold(story, real)
    strictstarts.go_on(story, real, fails=False)
    story.look(real)
    story.settle()
    story.tamper(real, cpus("5"))
    story.look(real)
    (order,) = story.flight
    assert order.container == real.key
    story.deliver(0, "lost-before")
    story.end(real)
    assert story.known(real).may_change_unseen
    assert [order.container for order in story.given if isinstance(order, StartTimer)] == [real.key]


def test_an_order_that_waited_for_a_held_start_tells_of_no_start() -> None:
    """The engine carries it out once the start is over, without asking the kernel: whether the container runs
    meanwhile, and where, is in doubt until the next look.
    """
    story = Story()
    real = strict(story, exclusive=2, quota=200_000)
    story.look(real)
    (order,) = story.flight
    strictstarts.hold(story, real)
    strictstarts.go_on(story, real, fails=False)
    story.deliver(0, "ok")
    assert story.known(real).is_idle
    assert Doubt(order.update.cpus, Ends.LOOK) in story.known(real).doubts
    assert CPUSet.from_mask(story.known(real).footprint) == order.update.cpus == real.effective
    assert story.given[-1] == LookAgain(real.key)
    assert not story.is_settled(real)
    story.settle()
    assert not story.known(real).is_idle
    assert story.known(real).doubts == ()
    assert story.is_settled(real)


def test_one_that_died_before_its_answered_start_gives_its_cpus_back() -> None:
    """It can never start, and no order to it would end the doubt; without a rule nothing would end its grant."""
    story = Story()
    real = strict(story, exclusive=2)
    strictstarts.hold(story, real)
    strictstarts.go_on(story, real, fails=True)
    story.remove(real, by_half=True)
    story.look(real)
    story.settle()
    while story.timers:
        story.time_out(0)
    assert real.key not in story.world.state.assignments


def test_what_a_strict_container_was_ordered_onto_without_effect_is_in_its_footprint() -> None:
    """The cgroup above it lacks CPUs: once that has them, the kernel lets it run there without any event."""
    story = Story()
    real = strict(story)
    strictstarts.hold(story, real)
    strictstarts.go_on(story, real, fails=False)
    story.look(real)
    story.settle()
    story.tamper(real, cpus("4"))
    story.look(real)
    story.deliver(0, "ineffective")
    assert where(real) == "4"
    story.relent(real)
    assert where(real) == "0-7"
    assert cpus("0-7") <= CPUSet.from_mask(story.known(real).footprint)
