"""The policy `dynamic` by stories: how many CPUs a container gets, which, after what notice, and why."""

from __future__ import annotations

import pytest

from sidecar.decide.books.resize import objection
from sidecar.decide.facts import DefragmentRequested, Purpose, TakeAcknowledged
from sidecar.decide.settings import PolicyName
from state.demand import NumaRule
from state.key import ContainerKey
from state.topology import uniform
from tests.support.decide.dynamic import Dynamic, elastic_labels, signals_to
from tests.support.decide.stories import cpus, told, where


def test_without_bounds_it_is_as_under_static() -> None:
    """Neither more than its request, however much is spare, nor less, whatever arrives."""
    story = Dynamic()
    web = story.elastic("web", 2)
    story.elastic("batch", 1, 1, 8)
    assert story.layout(web) == ["1-2"]
    assert story.grant(web).original == cpus("1-2")
    assert story.is_settled(web)


def test_it_starts_with_what_it_asks_for_and_grows_once_it_runs() -> None:
    """A program that counts its CPUs at its start counts what its label says."""
    story = Dynamic()
    batch = story.arrive("batch", 2, starts=False, labels=elastic_labels(1, 6))
    assert story.layout(batch) == ["1-2"]
    story.settle()
    story.again(batch)
    story.settle()
    assert story.layout(batch) == ["1-6"]
    assert (where(batch), story.told(batch).cpus) == ("1-6", cpus("1-6"))
    assert story.why(batch) == "its share of the spare CPUs grew by 4, within its ceiling of 6"


def test_an_arrival_takes_back_what_others_have_above_their_floors_after_notice() -> None:
    """The story of the take: announced, still on the CPUs, off them after the grace, and then granted to another."""
    story = Dynamic()
    batch = story.elastic("batch", 2, 2, 7)
    story.over(Purpose.COOLDOWN, batch)
    assert story.layout(batch) == ["1-7"]
    web = story.elastic("web", 3, 3)
    told = story.told(batch)
    assert (str(told.cpus), str(told.leaving), str(told.desired)) == ("1-7", "5-7", "1-4")
    assert told.deadline_seconds == 2.0
    assert told.settled
    assert told.reason == "gave up 5-7: web arrived and took 3 CPUs above batch's floor of 2"
    assert (where(batch), where(web)) == ("1-7", "0")
    assert not story.is_settled(web)
    story.over(Purpose.GRACE, batch)
    assert (where(batch), where(web)) == ("1-4", "5-7")
    assert (story.told(batch).leaving, story.told(batch).deadline_seconds) == (cpus(""), None)
    assert story.is_settled(web)
    assert story.world.state.forced == story.grant(batch).forced == 1


def test_an_acknowledgement_ends_the_waiting() -> None:
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 7)
    web = story.elastic("web", 2)
    story.acked(batch)
    assert (where(batch), where(web)) == ("1-5", "6-7")
    assert (story.world.state.forced, story.world.state.acknowledged) == (0, 1)
    assert story.waiting(Purpose.GRACE) == []


def test_an_acknowledgement_of_another_take_says_nothing() -> None:
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 7)
    story.elastic("web", 2)
    before = story.world.state
    leaving = story.grant(batch).leaving
    assert leaving is not None
    story.feed(TakeAcknowledged(batch.key, leaving.number + 1))
    story.feed(TakeAcknowledged(ContainerKey("docker", "f" * 64), leaving.number))
    assert story.world.state == before


def test_growth_cancels_what_is_leaving() -> None:
    """The arrival goes in the middle of the grace: nothing is taken or forced."""
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 7)
    web = story.elastic("web", 2)
    assert story.leaving(batch) == "6-7"
    story.away(web)
    story.settle()
    assert (story.layout(batch), story.leaving(batch), where(batch)) == (["1-7"], "", "1-7")
    assert story.world.state.forced == 0
    assert story.waiting(Purpose.GRACE) == []


def test_a_further_shrink_has_a_grace_of_its_own_and_puts_off_nothing() -> None:
    """CPUs that were leaving before go when their own notice is over, however often more are taken."""
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 7)
    web = story.elastic("web", 1)
    db = story.elastic("db", 2)
    first, second = story.waiting(Purpose.GRACE)
    assert second.number > first.number
    assert story.leaving(batch) == "5-7"
    assert story.told(batch).deadline_seconds == 2.0
    story.over(Purpose.GRACE, batch)
    assert (where(batch), story.leaving(batch), where(web)) == ("1-6", "5-6", "7")
    assert story.told(batch).deadline_seconds == 2.0
    story.over(Purpose.GRACE, batch)
    assert (where(batch), where(db), story.world.state.forced) == ("1-4", "5-6", 2)


def test_an_acknowledgement_is_one_of_all_that_is_leaving() -> None:
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 7)
    story.elastic("web", 1)
    story.elastic("db", 2)
    story.acked(batch)
    assert (where(batch), story.waiting(Purpose.GRACE), story.world.state.forced) == ("1-4", [], 0)


def test_a_restart_of_the_sidecar_begins_the_grace_anew() -> None:
    """A promise is a minimum; the State still lists what is leaving."""
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 7)
    web = story.elastic("web", 2)
    story.crash([False])
    story.settle()
    assert (story.leaving(batch), where(batch)) == ("6-7", "1-7")
    story.over(Purpose.GRACE, batch)
    assert (where(batch), where(web)) == ("1-5", "6-7")


def test_a_container_gone_in_the_middle_of_a_take_is_waited_for_no_longer() -> None:
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 7)
    web = story.elastic("web", 2)
    story.away(batch)
    story.settle()
    assert where(web) == "6-7"
    assert story.is_settled(web)


def test_a_stop_in_the_middle_of_a_take_starts_again_without_what_was_taken() -> None:
    """A program that does not run has nothing to vacate."""
    story = Dynamic()
    batch = story.elastic("batch", 1, 1, 7)
    web = story.elastic("web", 2)
    story.end(batch)
    story.settle()
    assert (where(batch), where(web)) == ("stopped 1-5", "6-7")
    story.again(batch)
    story.settle()
    assert (where(batch), story.world.state.forced) == ("1-5", 0)


def test_floors_are_admitted_as_long_as_they_fit_together_and_refused_with_the_numbers() -> None:
    story = Dynamic()
    batch = story.elastic("batch", 4, 3, 7)
    web = story.elastic("web", 4)
    story.over(Purpose.GRACE, batch)
    late = story.arrive("late", 1)
    assert story.layout(batch, web) == ["1-3", "4-7"]
    assert "asked for 1 exclusive CPU, 0 free (1 reserved: 0; 7 held by batch, web)" in story.why_refused(late)


def test_a_refusal_tells_that_the_others_were_counted_at_their_floors() -> None:
    story = Dynamic()
    story.elastic("batch", 4, 4, 7)
    late = story.arrive("late", 4)
    assert "3 free: 5-7" in story.why_refused(late)
    assert story.why_refused(late).endswith("; this counts every elastic container at its floor")


def test_an_arrival_gets_less_than_it_asks_for_but_never_less_than_its_floor() -> None:
    story = Dynamic()
    fixed = story.elastic("fixed", 4)
    late = story.elastic("late", 6, 2, 6)
    assert [len(story.grant(each).cpus) for each in (fixed, late)] == [4, 3]


def test_what_is_spare_is_shared_out_by_weight() -> None:
    story = Dynamic(uniform(cores=13))
    story.elastic("light", 1, 1, 12, weight="10")
    heavy = story.elastic("heavy", 1, 1, 12, weight="40")
    light = next(each for each in story.containers.values() if each.name == "light")
    story.over(Purpose.COOLDOWN, light)
    story.over(Purpose.GRACE, light)
    assert [len(story.grant(each).cpus) for each in (light, heavy)] == [3, 9]


def test_a_container_that_grew_shrinks_only_for_a_floor() -> None:
    """Cooling down, it keeps its CPUs against a fair share; a floor takes only what it needs."""
    story = Dynamic()
    first = story.elastic("first", 1, 1, 7)
    second = story.elastic("second", 1, 1, 7)
    assert [len(story.grant(each).cpus) for each in (first, second)] == [6, 1]
    story.acked(first)
    story.over(Purpose.COOLDOWN, first)
    story.acked(first)
    assert [len(story.grant(each).cpus) for each in (first, second)] == [4, 3]
    assert "the share of second grew" in story.why(first)


def test_one_that_fills_gives_way_at_once_to_a_load_and_to_an_order() -> None:
    """It took the spare CPUs a moment ago; a busy server need not wait for that."""
    story = Dynamic()
    server = story.elastic("server", 1, 1, 4, scale="load")
    batch = story.elastic("batch", 1, 1, 6)
    assert [len(story.grant(each).cpus) for each in (server, batch)] == [1, 6]
    assert story.grant(batch).cooling is not None
    story.used(server, 1.0)
    assert [len(story.grant(each).cpus) for each in (server, batch)] == [2, 5]
    assert "the share of server grew" in story.why(batch)


def test_a_load_that_grew_keeps_it_against_a_fair_share_until_it_has_cooled_down() -> None:
    """A container that follows its load is not shrunk again a second later."""
    story = Dynamic(uniform(cores=6))
    first = story.elastic("first", 1, 1, 5, scale="load")
    for use in (1.0, 2.0, 3.0):
        story.used(first, use)
    assert len(story.grant(first).cpus) == 4
    second = story.elastic("second", 1, 1, 5, scale="load")
    story.used(second, 1.0)
    assert [len(story.grant(each).cpus) for each in (first, second)] == [4, 1]
    story.over(Purpose.COOLDOWN, first)
    assert [len(story.grant(each).cpus) for each in (first, second)] == [3, 2]


def test_no_small_number_of_cpus_is_taken_unless_a_floor_needs_them() -> None:
    """With a least change of three, a second container that fills gets no CPU that the first would have to give up."""
    story = Dynamic(min_change=3)
    batch = story.elastic("batch", 1, 1, 7)
    assert story.layout(batch) == ["1-7"]
    story.over(Purpose.COOLDOWN, batch)
    tiny = story.elastic("tiny", 1, 1, 2)
    assert [len(story.grant(each).cpus) for each in (batch, tiny)] == [6, 1]


def test_a_growth_onto_free_cpus_may_be_small() -> None:
    """No CPU is idle because it is less than the least change."""
    story = Dynamic(min_change=4)
    story.elastic("first", 1, 1, 2)
    story.elastic("second", 4, 4, 6)
    assert len(story.world.state.assignable) == 0
    alone = Dynamic(min_change=4)
    ranged = alone.elastic("ranged", 2, 2, 5)
    assert len(alone.grant(ranged).cpus) == 5


def test_a_resize_is_obeyed_in_its_bounds_both_ways() -> None:
    story = Dynamic()
    batch = story.elastic("batch", 2, 1, 5, scale="manual")
    assert story.layout(batch) == ["1-2"]
    story.resized(batch, 5)
    assert (where(batch), story.why(batch)) == ("1-5", "it was resized to 5 CPUs")
    story.resized(batch, 1)
    assert (story.leaving(batch), where(batch)) == ("2-5", "1-5")
    story.acked(batch)
    assert where(batch) == "1"
    story.resized(batch, 6)
    assert where(batch) == "1"
    assert "may have 1 to 5 CPUs" in told(objection(story.world, batch.key, 6))[1]


@pytest.mark.parametrize(
    ("labels", "words"),
    [({"cpuset.max": "4"}, "decided by fill"), ({}, "fixed at 2"), ({"cpuset.exclusive": "0"}, "no exclusive CPUs")],
)
def test_a_resize_that_cannot_be_says_why(labels: dict[str, str], words: str) -> None:
    story = Dynamic()
    real = story.arrive("it", 2, labels=labels)
    assert words in told(objection(story.world, real.key, 3))[1]
    assert "no such container" in told(objection(story.world, ContainerKey("docker", "f" * 64), 3))[1]


def test_a_load_that_rises_and_falls_is_followed_with_calm() -> None:
    story = Dynamic()
    server = story.elastic("server", 1, 1, 6, scale="load")
    assert story.layout(server) == ["1"]
    story.used(server, 1.0)
    assert (story.layout(server), story.why(server)) == (["1-2"], "it used 1.0 of its 1 CPU")
    story.used(server, 1.7)
    assert story.layout(server) == ["1-3"]
    story.used(server, 3.0)
    assert story.layout(server) == ["1-6"]
    story.used(server, 0.2)
    assert story.layout(server) == ["1-6"]
    story.over(Purpose.COOLDOWN, server)
    assert (story.layout(server), story.leaving(server)) == (["1"], "2-6")
    story.acked(server)
    assert (where(server), story.why(server)) == ("1", "it used 0.2 of its 6 CPUs")


def test_which_cpus_come_are_the_nearest_and_go_as_they_came() -> None:
    """On two sockets with siblings: first the other half of its core, then its cache; they go in whole cores."""
    story = Dynamic(uniform(packages=2, cores=4, threads=2, adjacent=True), reserved_cpus=cpus("0-1"))
    batch = story.elastic("batch", 2, 2, 6, scale="manual")
    story.elastic("other", 2)
    assert story.layout(batch) == ["2-3"]
    story.resized(batch, 6)
    assert story.layout(batch) == ["2-3,6-9"]
    story.resized(batch, 4)
    assert story.leaving(batch) == "8-9"
    assert story.grant(batch).original == cpus("2-3")


def test_a_numa_rule_keeps_a_growth_on_its_node_and_nobody_gives_up_what_it_cannot_use() -> None:
    story = Dynamic(uniform(packages=2, cores=4), numa=NumaRule.SINGLE)
    bound = story.elastic("bound", 2, 2, 6)
    free = story.elastic("free", 1, 1, 6, numa="none")
    assert story.layout(bound) == ["1-3"]
    assert story.layout(free) == ["4-7"]


def test_an_offline_cpu_is_replaced_by_the_nearest_and_its_owner_told() -> None:
    story = Dynamic()
    batch = story.elastic("batch", 3, 3, 3)
    story.hotplug(2)
    assert (where(batch), story.told(batch).cpus) == ("1,3-4", cpus("1,3-4"))


def test_a_signal_is_sent_for_each_change_that_the_workload_is_told() -> None:
    """Not for what it starts with; once when CPUs begin to leave, once when they are gone, once for each growth."""
    story = Dynamic()
    batch = story.elastic("batch", 2, 1, 6, signal="SIGUSR1", scale="manual")
    assert signals_to(story, batch) == []
    story.resized(batch, 4)
    assert signals_to(story, batch) == ["USR1"]
    story.resized(batch, 3)
    assert signals_to(story, batch) == ["USR1"] * 2
    story.acked(batch)
    assert signals_to(story, batch) == ["USR1"] * 3


def test_a_moved_container_is_told_and_has_both_places_until_it_left() -> None:
    """A container that spans two sockets is moved onto one as soon as a release makes that possible."""
    story = Dynamic(uniform(packages=2, cores=4))
    first = story.elastic("first", 2)
    mover = story.elastic("mover", 3, move="true")
    assert story.layout(first, mover) == ["1-2", "3-5"]
    story.away(first)
    story.settle()
    told = story.told(mover)
    assert (str(told.cpus), str(told.leaving), str(told.desired)) == ("3-6", "3", "4-6")
    assert story.why(mover) == "moved closer together: on 1 NUMA node instead of 2"
    story.acked(mover)
    assert (where(mover), story.grant(mover).original) == ("4-6", cpus("4-6"))


def test_no_container_is_moved_without_its_consent() -> None:
    story = Dynamic(uniform(packages=2, cores=4))
    first = story.elastic("first", 2)
    stays = story.elastic("stays", 3)
    story.away(first)
    story.feed(DefragmentRequested())
    story.settle()
    assert story.layout(stays) == ["3-5"]


def test_a_move_that_makes_nothing_better_is_not_made() -> None:
    """And a round makes no more useful moves than its limit."""
    story = Dynamic(uniform(packages=2, cores=4), max_moves=0)
    first = story.elastic("first", 2)
    mover = story.elastic("mover", 3, move="true")
    story.away(first)
    story.feed(DefragmentRequested())
    assert story.layout(mover) == ["3-5"]
    story.change_settings(policy=PolicyName.DYNAMIC, max_moves=2)
    story.feed(DefragmentRequested())
    story.acked(mover)
    before = story.world.state
    story.feed(DefragmentRequested())
    assert (story.layout(mover), story.world.state) == (["4-6"], before)


def test_the_policy_may_be_changed_to_and_fro_with_the_books() -> None:
    """Under static each container has its request again; back under dynamic it grows again."""
    story = Dynamic()
    batch = story.elastic("batch", 2, 1, 6)
    assert story.layout(batch) == ["1-6"]
    story.change_settings(policy=PolicyName.STATIC)
    story.settle()
    assert (story.layout(batch), where(batch)) == (["1-2"], "1-2")
    story.change_settings(policy=PolicyName.DYNAMIC)
    story.settle()
    assert (story.layout(batch), story.grant(batch).original) == (["1-6"], cpus("1"))


def test_asked_twice_the_policy_changes_nothing() -> None:
    story = Dynamic()
    story.elastic("a", 1, 1, 5)
    story.elastic("b", 1, 1, 5, scale="load")
    before = story.world.state
    story.feed()
    assert story.world.state is before
