"""The laws of the hand have teeth: each planted fault is caught by its law, on hosts with a hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sidecar.decide import covering
from sidecar.decide.books import lent
from sidecar.decide.books.room import Room
from sidecar.decide.container.container import Container
from sidecar.decide.settings import Settings
from sidecar.projection.projection_of import may_be_told
from state.topology import uniform
from tests.decide.lawbook import hand_faults, handlaws, laws, pool_faults, poollaws
from tests.decide.lawbook.faults import Fault
from tests.decide.long_run import history
from tests.decide.moves import test_glanced
from tests.support.decide import telling
from tests.support.decide.hand_stories import lose_its_grant_while_the_engine_is_away, owner_alone
from tests.support.decide.handreality import HandReality
from tests.support.decide.histories import DYNAMIC, STATIC, Broken, check
from tests.support.laws import When

PLANTED: tuple[tuple[Fault, Sequence[Settings]], ...] = (
    *((fault, STATIC) for fault in hand_faults.FAULTS),
    *((fault, DYNAMIC) for fault in hand_faults.DYNAMIC_FAULTS),
    *((fault, pool_faults.SETTINGS) for fault in pool_faults.HAND_FAULTS),
)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "settings"), PLANTED, ids=[fault.name for fault, _ in PLANTED])
def test_a_daemon_with_one_broken_rule_of_the_hand_is_caught(
    fault: Fault, settings: Sequence[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In some history that law is broken before any other. Slow: a history with a hand takes twice as long."""
    fault.plant(monkeypatch)
    assert fault.caught(settings, with_hand=True) is not None


def _lost_after_a_look() -> None:
    """Look at a newcomer, have the hand move it for an owner, and lose hand and engine before the look is reported."""
    reality = HandReality(uniform(cores=4, threads=2), STATIC[0])
    while reality.go_on():
        pass
    owner, newcomer = reality.create({"cpuset.exclusive": "2"}), reality.create({})
    for real in (owner, newcomer):
        reality.start(real)
        reality.begin_look(real.key)
    reality.deliver_look(0)
    while reality.act():
        pass
    assert newcomer.effective is not None
    assert newcomer.effective != reality.online
    reality.lose_hand()
    while reality.hear():
        pass
    # No order may be given: it would hide what is believed.
    reality.disconnect()
    reality.deliver_look(0)
    check(reality, When.STEP)


def test_a_look_from_before_the_hand_was_lost_is_not_believed() -> None:
    """It shows where the newcomer was before the hand moved it."""
    _lost_after_a_look()


def test_a_daemon_that_believes_such_a_look_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A story shows it, because few histories do: the next order mostly makes good what was believed."""
    hand_faults.believes_looks_from_before_the_hand_was_lost(monkeypatch)
    with pytest.raises(Broken) as caught:
        _lost_after_a_look()
    assert laws.TOLD in caught.value.laws


def test_a_pool_that_keeps_a_core_which_one_of_it_cannot_enter_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one that has a CPU on which that one is."""
    history(85000473, with_hand=True)
    honest = Room._completing
    monkeypatch.setattr(Room, "_completing", lambda room, now, others: honest(room, now, list(reversed(others))))
    monkeypatch.setattr(lent, "_with_what_each_keeps", lambda world, room, lent, was_shared, reached: lent)
    with pytest.raises(Broken) as caught:
        history(85000473, with_hand=True)
    assert poollaws.CUT_BY_ORDERS in caught.value.laws


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(88003879, id="a core of which it has nothing"),
        pytest.param(89000988, id="two of it, each on one CPU that is closed to the other"),
    ],
)
def test_a_pool_that_keeps_nothing_of_what_one_of_it_has_is_caught(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    history(seed, with_hand=True)
    monkeypatch.setattr(lent, "_with_what_each_keeps", lambda world, room, lent, was_shared, reached: lent)
    with pytest.raises(Broken) as caught:
        history(seed, with_hand=True)
    assert poollaws.CUT_BY_ORDERS in caught.value.laws


def test_a_file_that_stays_while_an_engine_is_away_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel shows what is born beside an owner, whether its engine is there or not."""
    history(90500133, with_hand=True)
    monkeypatch.setattr(telling, "may_be_told", lambda world, key, **_: not world.is_absent(key) or world.is_blind)
    with pytest.raises(Broken) as caught:
        history(90500133, with_hand=True)
    assert laws.STILL_ALONE in caught.value.laws


def test_a_file_of_one_that_lost_its_grant_while_an_engine_is_away_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A story shows it: few histories change the settings just then."""
    host, _ = owner_alone()
    lose_its_grant_while_the_engine_is_away(host)
    check(host, When.STEP)
    honest = may_be_told
    monkeypatch.setattr(telling, "may_be_told", lambda world, key, **_: honest(world, key))
    host, _ = owner_alone()
    lose_its_grant_while_the_engine_is_away(host)
    with pytest.raises(Broken) as caught:
        check(host, When.STEP)
    assert laws.STILL_ALONE in caught.value.laws


def test_orders_that_nothing_shows_and_that_never_end_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no group is where the engine says: the hand does not move it."""
    history(88003426, with_hand=True)
    is_covered = property(lambda container: container.is_covered and not container.is_idle)
    monkeypatch.setattr(Container, "is_by_hand", is_covered)
    with pytest.raises(Broken):
        history(88003426, with_hand=True)


def test_a_release_that_forgets_what_the_hand_gives_back_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a container whose runtime asks: where its engine has configured it counts for nothing else."""
    history(86000157, with_hand=True)
    monkeypatch.setattr(covering, "_answers_to", lambda hand, container: hand.answers_for(container.view.key))
    with pytest.raises(Broken) as caught:
        history(86000157, with_hand=True)
    assert laws.FOOTPRINTS in caught.value.laws


def test_a_daemon_that_believes_an_engine_about_a_start_under_way_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A story shows it, since the hand moves what it found of a container that rests: both have to be broken."""
    hand_faults.believes_that_what_is_called_created_rests(monkeypatch)
    with pytest.raises(AssertionError, match=laws.FOOTPRINTS.name):
        test_glanced.test_what_is_still_being_started_is_told_where_it_runs()


def test_a_hand_that_keeps_what_an_order_wrote_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A story shows it: in few histories a pinned container is long about its start below a parent that is known."""
    hand_faults.keeps_what_an_order_wrote(monkeypatch)
    with pytest.raises(AssertionError, match=handlaws.GIVEN_BACK.name):
        test_glanced.test_a_pin_that_no_glance_showed_is_given_back()
