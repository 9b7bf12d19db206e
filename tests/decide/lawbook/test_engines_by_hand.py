"""The laws hold on hosts with two engines and one hand, which knows where each of them puts its containers, or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.decide import step
from sidecar.decide.books import pinned
from sidecar.decide.books.holdings import sources_for
from sidecar.decide.hand_state import HandState
from sidecar.decide.moves import newborn_answers
from tests.decide.lawbook import enginelaws, handlaws, laws
from tests.decide.long_run import history
from tests.support.decide.histories import Broken
from tests.support.decide.reality import Reality
from tests.support.decide.two_by_hand import TwoByHand
from tests.support.laws import Law


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, 40), *(pytest.param(start, start + 200, marks=pytest.mark.slow) for start in range(40, 840, 200))],
)
def test_histories_with_two_engines_and_a_hand_break_no_law(first: int, last: int) -> None:
    """In one of two, the second engine has a group of its own, which the hand learns of."""
    for seed in range(first, last):
        history(seed, with_hand=True, with_two=True)


def test_a_group_that_is_called_like_a_container_of_which_only_the_grant_is_known_counts_as_that_one() -> None:
    """After a restart, before its engine is reached: it may be below any parent."""
    history(89622778, with_hand=True, with_two=True)


def test_what_an_absent_engine_holds_stays_though_its_ceiling_is_lower_by_now() -> None:
    """The owner of the host took a right meanwhile: that counts when its engine is back."""
    history(90310047, with_hand=True, with_two=True)


def test_what_is_above_a_ceiling_goes_at_once_while_no_engine_is_ready() -> None:
    """A look shows a limit that the glance before had not shown: it began before its engine was reached."""
    history(93700227, with_hand=True, with_two=True)


def test_what_the_hand_lets_go_may_have_started_unseen_where_it_was_answered() -> None:
    """In a release, while its engine is away; its group cannot be written."""
    history(93313703, with_hand=True, with_two=True)


def test_a_look_that_began_before_a_newborn_was_moved_does_not_show_what_that_lacks() -> None:
    """It was moved off an owner's CPUs, and cannot be written now that these are free."""
    history(94103747, with_hand=True, with_two=True)


@pytest.mark.parametrize("seed", [98000003, 98003793])
def test_what_is_granted_at_rest_stays_where_it_is_written_but_for_what_is_lent(seed: int) -> None:
    """One that is only glanced at may be anywhere meanwhile."""
    history(seed, with_hand=True, with_two=True)


def test_what_is_kept_for_a_successor_is_enough_for_the_pool_until_that_comes() -> None:
    """Its engine is away that leaves another CPU to the pool."""
    history(97051778, with_hand=True, with_two=True)


def test_one_that_may_be_pinned_since_its_engine_is_away_is_born_on_what_it_had() -> None:
    """Its start was held then, and nothing but a glance shows it: the right counts when its engine is back."""
    history(93308714, with_hand=True, with_two=True)


def test_original_cpus_that_are_lone_threads_give_way_to_a_whole_core() -> None:
    """A core lost a thread, and a whole core came later, as an engine was reached again."""
    history(92200826, with_hand=True, with_two=True)


def test_one_that_was_told_no_for_good_waits_for_nothing_though_a_glance_does_not_show_its_start() -> None:
    """Other settings could serve it, and its predecessor's CPUs came free, while another program had its lock."""
    history(93300818, with_hand=True, with_two=True)


def test_a_newborn_of_an_absent_engine_is_in_the_way_of_owners_where_it_is_stuck() -> None:
    """It is not known after a restart, and the hand cannot write it: an owner of the other engine waits."""
    history(94100337, with_hand=True, with_two=True)


def test_one_that_is_pinned_may_be_where_the_hand_could_not_give_it_back_what_it_had() -> None:
    """It was born before the hand was told that it is left alone, and its engine calls it created as yet."""
    history(94102412, with_hand=True, with_two=True)


def test_what_was_only_glanced_at_leaves_what_its_runtime_wrote_with_its_first_answer_of_its_own() -> None:
    """The same order lets others be born there."""
    history(94103700, with_hand=True, with_two=True)


@pytest.mark.parametrize("seed", [94300318, 94600781, 94804442])
def test_a_look_shows_what_another_tool_changed_though_an_order_or_the_hand_was_lost_since(seed: int) -> None:
    """It was stopped then, and no later look gets through: another program has its lock."""
    history(seed, with_hand=True, with_two=True)


def test_the_second_engine_has_a_group_of_its_own_in_one_of_two() -> None:
    hosts = [history(seed, with_hand=True, with_two=True) for seed in range(20)]
    assert {host.has_own_group for host in hosts if isinstance(host, TwoByHand)} == {True, False}


def takes_any_hand_for_one_that_answers_all_births(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HandState, "answers_births_of", lambda hand, engine, contacts: hand.is_answering and not hand.taken)


def moves_what_is_away_off_its_cpus(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        pinned, "sources_for", lambda world, bare, holdings, grant, _: sources_for(world, bare, holdings, grant)
    )


def never_looks_again_once_it_knows_where_an_engine_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "coverable_since", lambda before, world: ())


def watches_what_a_glance_alone_shows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(newborn_answers, "_is_only_glanced_away", lambda world, view: False)


@pytest.mark.parametrize(
    ("plant", "seed", "law"),
    [
        (takes_any_hand_for_one_that_answers_all_births, 89500160, enginelaws.NOT_TOLD),
        (moves_what_is_away_off_its_cpus, 89533715, enginelaws.KEPT),
        (never_looks_again_once_it_knows_where_an_engine_is, 89520504, handlaws.COVERED),
        (watches_what_a_glance_alone_shows, 89500048, laws.TOLD),
    ],
)
def test_a_daemon_that_knows_too_little_of_two_engines_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], seed: int, law: Law[Reality], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same history breaks no law without the fault."""
    history(seed, with_hand=True, with_two=True)
    plant(monkeypatch)
    with pytest.raises(Broken) as caught:
        history(seed, with_hand=True, with_two=True)
    assert law in caught.value.laws
