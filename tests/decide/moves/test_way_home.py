"""A container that is pinned by hand goes back when it no longer asks for CPUs, and is not moved after that."""

from __future__ import annotations

from typing import Any

from sidecar.decide.container.container import Standing
from sidecar.decide.container.machine import after
from sidecar.decide.container.news import LetGo
from sidecar.decide.facts import ContainerRemoved
from sidecar.decide.hand_state import HandState
from sidecar.decide.moves.newborn_answers import answers_of
from sidecar.decide.orders import Answers, HoldAnswers
from sidecar.decide.settings import PolicyName, Rule, TenantRight
from sidecar.decide.world import replace
from sidecar.projection.projection_of import projection_of
from sidecar.words.neighbours import pinned_text
from state.cpuset import CPUSet
from tests.support.decide.real import Real
from tests.support.decide.stories import GIGA, Story, cpus, where

RULES = (Rule(labels={"cpuset.exclusive": "2"}, name="db*", place="here"),)


def moved(story: Story, **fields: Any) -> Real:
    """Return a container that was pinned to CPUs 0 and 7, and was granted CPUs 1-2 by a rule."""
    real = story.arrive("db", cpuset="0,7", **fields)
    story.settle()
    assert where(real) == "1-2"
    return real


def test_it_goes_back_when_its_rule_is_taken_away() -> None:
    """With its limit. What it has then is its own: nothing is remembered, and it is not moved again."""
    story = Story(rules=RULES)
    real = moved(story, nano_cpus=2 * GIGA)
    story.change_settings()
    story.settle()
    assert (where(real), real.nano_cpus, story.granted(real)) == ("0,7", 2 * GIGA, None)
    assert (story.known(real).wish.standing, story.world.state.originals) == (Standing.STRANGER, {})


def test_it_goes_back_when_its_rule_asks_for_another_number() -> None:
    """The request is refused, since it contradicts the pin."""
    story = Story(rules=RULES)
    real = moved(story)
    story.change_settings(rules=(Rule(labels={"cpuset.exclusive": "3"}, name="db*", place="here"),))
    story.settle()
    assert (where(real), story.granted(real)) == ("0,7", None)


def test_one_that_is_kept_out_goes_back_as_well() -> None:
    """As long as it runs, it leaves these CPUs again to any container that is granted them."""
    story = Story(rules=RULES)
    real = moved(story)
    story.change_settings(unmanaged=("db*",))
    story.settle()
    assert where(real) == "0,7"


def test_under_the_policy_none_it_stays() -> None:
    story = Story(rules=RULES)
    real = moved(story)
    story.change_settings(policy=PolicyName.NONE)
    story.settle()
    assert (where(real), "goes back" in pinned_text(story.world, story.known(real))) == ("1-2", False)


def test_an_owner_of_its_cpus_leaves_them_first() -> None:
    """As any owner leaves the CPUs of a pin. Until then it is in the shared pool, and does not go back in parts."""
    story = Story(rules=RULES)
    real, own = moved(story), story.arrive("own", 5)
    story.settle()
    assert where(own) == "3-7"
    story.change_settings()
    told = "pinned by hand to CPUs 0,7, and runs on CPUs 1-2: it goes back when no other container has"
    assert pinned_text(story.world, story.known(real)) == f"{told} its own CPUs exclusively"
    story.settle()
    assert (where(real), where(own)) == ("0,7", "1,3-6")


def test_it_makes_way_where_it_waits() -> None:
    """Nothing but its own is kept for it, and that is granted to nobody else."""
    story = Story(rules=RULES)
    real, own = moved(story), story.arrive("own", 4)
    story.settle()
    assert where(own) == "3-6"
    story.change_settings()
    first, second, third = (story.arrive(name, 1) for name in ("first", "second", "third"))
    story.settle()
    assert [story.granted(each) for each in (first, second, third)] == ["1", "2", None]
    assert where(real) == "0,7"


def test_a_right_that_comes_later_moves_the_owners_and_keeps_the_pool_free() -> None:
    """One that had no right to its pin is in all of the pool: none of that is its own when the right comes."""
    story = Story(may=())
    own, real = story.arrive("own", 2), story.arrive("pinned", cpuset="1-2")
    story.settle()
    assert (where(own), where(real)) == ("1-2", "0,3-7")
    story.change_settings(may=(TenantRight.PIN,))
    late = story.arrive("late", 2)
    story.settle()
    assert (where(real), where(own), where(late)) == ("1-2", "3-4", "5-6")
    assert story.world.state.originals.get(real.key) is None


def test_one_whose_own_cpus_are_all_offline_waits_in_the_pool() -> None:
    story = Story(may=())
    own, real = story.arrive("own", 2), story.arrive("pinned", cpuset="1-2")
    story.settle()
    story.hotplug(1)
    story.hotplug(2)
    story.change_settings(may=(TenantRight.PIN,))
    story.settle()
    assert story.granted(story.arrive("late", 2)) == "5-6"
    assert where(own) == "3-4"
    told = "pinned by hand to CPUs 1-2, all of which are offline: it goes back when any of that is online"
    assert pinned_text(story.world, story.known(real)) == told
    story.hotplug(1)
    story.hotplug(2)
    story.settle()
    assert where(real) == "1-2"


def test_one_that_is_half_removed_keeps_nothing_for_its_way_back() -> None:
    """It can never be moved again: others are granted the CPUs to which it was pinned."""
    story = Story(rules=RULES)
    real = moved(story)
    story.remove(real, by_half=True)
    story.look(real)
    story.change_settings()
    own = story.arrive("own", 7)
    story.settle()
    assert where(own) == "1-7"


def test_it_waits_for_those_of_its_cpus_that_are_offline() -> None:
    story = Story(rules=RULES)
    real = moved(story)
    story.hotplug(7)
    story.change_settings()
    story.settle()
    assert where(real) == "0"
    assert pinned_text(story.world, story.known(real)).startswith("pinned by hand to CPU 0: it is never moved")
    story.hotplug(7)
    assert (where(real), story.world.state.originals) == ("0,7", {})


def test_it_goes_back_at_once_to_all_of_them_when_an_owner_can_move() -> None:
    """The owner is ordered off first; until its footprint is off, the other one stays."""
    story = Story(rules=RULES)
    real, own = moved(story), story.arrive("own", 4, cpuset="4-7")
    story.settle()
    assert where(own) == "4-7"
    orders = len(story.updates(real))
    story.change_settings()
    story.settle()
    assert (where(real), len(story.updates(real)) - orders) == ("0,7", 2), "by way of the pool"


def test_the_hand_keeps_it_where_it_waits() -> None:
    """It answers the next births there, and lets go once it is back: what its runtime would write is an owner's."""
    story, own, real = _waiting()
    assert _answer(story, real) == cpus("0,7")
    story.remove(own)
    story.feed(ContainerRemoved(own.key, story.ticket()))
    story.settle()
    assert (where(real), _answer(story, real)) == ("1-2", None)


def test_its_file_says_where_it_waits() -> None:
    """It is there for sure: the hand has that answer for it alone."""
    story, _, real = _waiting()
    held = HoldAnswers(0, Answers(others=cpus("0,7"), own={real.key: cpus("0,7")}, owned=cpus("1-6")))
    world = replace(story.world, hand=HandState(parents=("/docker",), held=held))
    told = projection_of(world, world.containers[real.key])
    assert (told.cpus, told.arriving, told.settled) == (cpus("0,7"), CPUSet(), True)


def test_its_originals_are_kept_while_it_may_be_elsewhere() -> None:
    """As after the hand was lost, until a look: nothing is granted where it may be meanwhile."""
    story = Story(may=())
    real = story.arrive("pinned", cpuset="1-2")
    own = story.arrive("own", 2)
    story.settle()
    assert (where(own), where(real)) == ("3-4", "1-2")
    known = story.known(real)
    lost = after(known, LetGo(cpus("1-6"), story.ticket()))
    story.world = replace(story.world.with_container(lost), hand=None)
    story.change_settings(may=(TenantRight.PIN,))
    assert real.key in story.world.state.originals
    story.look(real)
    assert story.world.state.originals.get(real.key) is None


def _waiting() -> tuple[Story, Real, Real]:
    """Return an owner that cannot move, and a container that is pinned to two of its CPUs, and waits for these."""
    story = Story(may=())
    own, real = story.arrive("own", 6), story.arrive("pinned", cpuset="1-2")
    story.settle()
    story.change_settings(may=(TenantRight.PIN,))
    story.settle()
    assert (where(own), where(real)) == ("1-6", "0,7")
    return story, own, real


def _answer(story: Story, real: Real) -> CPUSet | None:
    return answers_of(replace(story.world, hand=HandState(parents=("/docker",)))).own[real.key]
