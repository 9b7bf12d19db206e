"""The static policy by example: what is granted, refused and kept, and when a grant ends."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import InventoryTaken, Phase, Purpose
from sidecar.decide.moves.alone import is_alone
from sidecar.decide.orders import StartTimer
from state.cpuset import CPUSet
from state.refusal import RefusalCode
from state.topology import uniform
from tests.support.decide.stories import Story, cpus, where


def test_an_exclusive_container_gets_cpus_and_the_pool_leaves_them() -> None:
    story = Story()
    plain = story.arrive("plain")
    rt = story.arrive("rt", 2)
    story.settle()
    assert (where(rt), where(plain)) == ("1-2", "0,3-7")
    assert story.is_settled(rt)
    assert story.granted(rt) == "1-2"


def test_a_created_container_holds_its_cpus_before_it_starts() -> None:
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    story.settle()
    assert where(rt) == "stopped 1-2"
    assert not story.is_settled(rt)
    story.again(rt)
    story.settle()
    assert where(rt) == "1-2"
    assert story.is_settled(rt)


@pytest.mark.parametrize(("rule", "stops"), [("share", []), ("wait", []), ("stop", ["second"])])
def test_a_shortage_by_its_rule(rule: str, stops: list[str]) -> None:
    """All run in the shared pool, with the reason; `stop` is stopped once per start."""
    story = Story()
    first = story.arrive("first", 6)
    second = story.arrive("second", 2, labels={"cpuset.on-shortage": rule})
    refusal = story.refusal(second)
    assert refusal.code is RefusalCode.NOT_ENOUGH
    assert (
        story.why_refused(second)
        == "asked for 2 exclusive CPUs, 1 free: 7 (1 reserved: 0; 6 held by first); 1 would fit"
    )
    story.settle()
    assert where(first) == "1-6"
    assert story.stops() == stops
    if not stops:
        assert where(second) == "0,7"


def test_a_waiting_container_is_upgraded_when_cpus_are_free() -> None:
    story = Story()
    first = story.arrive("first", 6)
    waiting = story.arrive("waiting", 2, labels={"cpuset.on-shortage": "wait"})
    sharing = story.arrive("sharing", 2)
    story.settle()
    story.away(first)
    story.settle()
    assert where(waiting) == "1-2"
    assert story.is_settled(waiting)
    assert story.granted(sharing) is None
    assert where(sharing) == "0,3-7"


def test_a_sharing_container_asks_again_at_its_next_start() -> None:
    story = Story()
    first = story.arrive("first", 6)
    sharing = story.arrive("sharing", 2)
    story.settle()
    story.away(first)
    story.end(sharing)
    assert story.granted(sharing) is None
    story.again(sharing)
    story.settle()
    assert where(sharing) == "1-2"


def test_a_container_with_stop_is_stopped_again_at_its_next_start() -> None:
    story = Story()
    story.arrive("first", 6)
    second = story.arrive("second", 2, labels={"cpuset.on-shortage": "stop"})
    story.settle()
    story.look(second)
    story.take_inventory()
    assert story.stops() == ["second"]
    story.again(second)
    assert story.stops() == ["second", "second"]


def test_a_label_that_cannot_be_understood_is_refused_and_runs_in_the_pool() -> None:
    story = Story()
    story.arrive("rt", 2)
    bad = story.arrive("bad", "two")
    story.settle()
    assert story.refusal(bad).code is RefusalCode.BAD_LABEL
    assert where(bad) == "0,3-7"


def test_the_pool_is_never_given_away_whole() -> None:
    """A strict reservation is not in the pool, so one more CPU stays."""
    story = Story(options=("strict-cpu-reservation",))
    plain = story.arrive("plain")
    story.settle()
    assert where(plain) == "1-7"
    rt = story.arrive("rt", 7)
    story.settle()
    assert story.refusal(rt).code is RefusalCode.POOL_WOULD_BE_EMPTY
    reason = "asked for 7 exclusive CPUs, but this machine can give 6 at most: 1 must stay shared (1 reserved: 0)"
    assert story.why_refused(rt) == reason
    other = story.arrive("other", 6)
    story.settle()
    assert (where(other), where(plain)) == ("1-6", "7")
    assert story.is_settled(other)


def test_shared_min_stays_shared() -> None:
    story = Story(shared_min=3)
    assert story.granted(story.arrive("rt", 6)) is None
    assert story.granted(story.arrive("less", 5)) == "1-5"


def test_the_last_cpu_beside_the_reserved_ones_may_be_given() -> None:
    """The reserved CPUs are shared ones, unless the reservation is strict."""
    story = Story()
    rt = story.arrive("rt", 7)
    plain = story.arrive("plain")
    story.settle()
    assert (where(rt), where(plain)) == ("1-7", "0")


def test_a_container_may_ask_for_whole_cores_of_its_own() -> None:
    story = Story(uniform(cores=4, threads=2))
    whole = {"cpuset.options": "full-pcpus-only"}
    assert story.granted(story.arrive("one", 1)) == "4"
    assert story.granted(story.arrive("two", 2, labels=whole)) == "1,5"
    odd = story.arrive("odd", 1, labels=whole)
    assert story.refusal(odd).code is RefusalCode.NOT_WHOLE_CORES


def test_an_own_empty_list_of_options_frees_from_the_nodes() -> None:
    story = Story(uniform(cores=4, threads=2), options=("full-pcpus-only",))
    assert story.granted(story.arrive("odd", 1)) is None
    assert story.granted(story.arrive("free", 1, labels={"cpuset.options": ""})) == "4"


# When a grant ends.


def test_a_stopped_container_keeps_its_cpus_for_as_long_as_it_may_linger() -> None:
    story = Story(linger_seconds=7.5)
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.end(rt)
    story.settle()
    assert story.given[-1] == StartTimer(rt.key, Purpose.LINGER, story.timers[-1].number, 7.5)
    assert (story.granted(rt), where(plain)) == ("1-2", "0,3-7")
    story.time_out(-1)
    story.settle()
    assert (story.granted(rt), where(rt), where(plain)) == (None, "stopped 0-7", "0-7")


def test_a_restart_within_the_linger_keeps_the_cpus() -> None:
    """And the old timer has no effect."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.end(rt)
    story.again(rt)
    story.time_out(-1)
    story.settle()
    assert (story.granted(rt), where(rt)) == ("1-2", "1-2")
    assert story.is_settled(rt)
    story.end(rt)
    story.time_out(-1)
    assert story.granted(rt) is None


def test_a_start_after_the_linger_asks_anew() -> None:
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.end(rt)
    story.time_out(-1)
    other = story.arrive("other", 1)
    story.settle()
    story.again(rt)
    story.settle()
    assert (where(other), where(rt)) == ("1", "2-3")


def test_a_container_that_was_created_and_never_started_gives_up_its_cpus() -> None:
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    story.settle()
    story.time_out(0)
    story.settle()
    assert (story.granted(rt), where(rt)) == (None, "stopped 0-7")
    story.again(rt)
    story.settle()
    assert where(rt) == "1-2"


def test_a_removed_container_gives_back_its_cpus_at_once() -> None:
    """As `--rm` does: die and destroy come together."""
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.stop(rt)
    story.away(rt)
    story.settle()
    assert where(plain) == "0-7"
    assert rt.key not in story.world.state.originals


def test_a_restart_policy_keeps_the_cpus_for_as_long_as_it_takes() -> None:
    """No timer runs while the engine says restarting."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.timers.clear()
    story.end(rt, restarts=True)
    story.settle()
    assert story.timers == []
    assert (story.granted(rt), where(rt)) == ("1-2", "restarting 1-2")
    story.again(rt)
    assert where(rt) == "1-2"


def test_a_paused_container_keeps_what_it_has() -> None:
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    rt.phase = Phase.PAUSED
    story.look(rt)
    story.settle()
    assert story.granted(rt) == "1-2"
    assert story.is_settled(rt)


# Strangers and adoption.


def test_cpus_of_a_stranger_are_granted_to_no_container() -> None:
    story = Story()
    stranger = story.arrive("stranger", cpuset="1-2")
    rt, plain = story.arrive("rt", 2), story.arrive("plain")
    story.settle()
    assert (where(stranger), where(rt), where(plain)) == ("1-2", "3-4", "0-2,5-7")
    assert story.updates(stranger) == []
    refused = story.arrive("refused", 5)
    assert "2 in use by containers pinned by hand: stranger" in story.why_refused(refused)


def test_a_stopped_stranger_may_start_at_any_moment() -> None:
    story = Story()
    story.arrive("stranger", cpuset="1-2", starts=False)
    assert story.granted(story.arrive("rt", 1)) == "3"


def test_an_owner_leaves_the_cpus_of_a_stranger_that_comes_later() -> None:
    """It keeps the others: the stranger cannot be moved, and there are free CPUs."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    stranger = story.arrive("stranger", cpuset="1")
    story.settle()
    assert (where(rt), where(stranger)) == ("2-3", "1")
    assert story.is_settled(rt)


def test_an_owner_leaves_the_cpus_where_a_stranger_was_put_that_is_pinned_elsewhere() -> None:
    """A hand that was killed may have moved it, and what it had is not known: it stays until its next start."""
    story = Story()
    stranger = story.arrive("stranger", cpuset="3")
    rt = story.arrive("rt", 1)
    story.settle()
    assert where(rt) == "1"
    story.kernel.write(stranger.id, CPUSet.parse("0-1"))
    story.look(stranger)
    story.settle()
    assert (where(rt), where(stranger)) == ("2", "0-1")
    assert story.is_settled(rt)


def test_an_owner_stays_beside_a_stranger_whose_pin_is_offline() -> None:
    """It is pinned to none of those on which the kernel lets it run: no other place would be better."""
    story = Story()
    rt = story.arrive("rt", 1)
    story.settle()
    stranger = story.arrive("stranger", cpuset="3")
    story.hotplug(3)
    story.look(stranger)
    story.settle()
    assert where(rt) == "1"


def test_an_owner_stays_beside_a_stranger_where_no_cpu_is_free() -> None:
    """It is settled, since nothing more can be done, and alone once the stranger is gone."""
    story = Story(uniform(cores=3))
    rt = story.arrive("rt", 2)
    story.settle()
    stranger = story.arrive("stranger", cpuset="1")
    story.settle()
    assert (where(rt), where(stranger)) == ("1-2", "1")
    assert story.is_settled(rt)
    assert not is_alone(story.world, story.known(rt))
    story.away(stranger)
    assert is_alone(story.world, story.known(rt))


def test_an_unmanaged_container_is_never_touched() -> None:
    story = Story(unmanaged=("db-*",))
    alone = story.arrive("alone", 2, labels={"cpuset.manage": "off"})
    named = story.arrive("db-1", 2)
    rt = story.arrive("rt", 2)
    story.settle()
    assert story.updates(alone) == story.updates(named) == []
    assert where(alone) == where(named) == "0-7"
    assert story.is_settled(rt)


def test_a_container_that_ran_before_keeps_what_it_lawfully_holds() -> None:
    """It is served before containers that came earlier, and needs no update."""
    story = Story()
    early = story.unseen("early", 2)
    adopted = story.unseen("adopted", 2, cpuset="2-3")
    story.take_inventory()
    story.settle()
    assert (where(adopted), where(early)) == ("2-3", "1,4")
    assert story.updates(adopted) == []
    assert story.is_settled(adopted)


@pytest.mark.parametrize("held", ["0-1", "3"])
def test_what_it_may_not_hold_is_not_kept(held: str) -> None:
    """Reserved CPUs, or too few: it asks like any other container; a pin that contradicts the label is refused."""
    story = Story()
    adopted = story.unseen("adopted", 2, cpuset=held)
    story.take_inventory()
    story.settle()
    if held == "3":
        assert story.refusal(adopted).code is RefusalCode.CONTRADICTION
        assert where(adopted) == "3"
    else:
        assert where(adopted) == "1-2"


def test_two_that_ran_on_the_same_cpus_are_parted() -> None:
    """The older arrival keeps them."""
    story = Story()
    one, two = story.unseen("one", 2, cpuset="2-3"), story.unseen("two", 2, cpuset="2-3")
    story.take_inventory()
    story.settle()
    assert (where(one), where(two)) == ("2-3", "1,4")
    assert story.is_settled(one)
    assert story.is_settled(two)


def test_arrivals_of_one_burst_are_served_in_their_order() -> None:
    story = Story()
    reals = [story.unseen(f"c{number}", 3) for number in range(3)]
    story.feed(InventoryTaken(tuple(real.view() for real in reals), (), story.ticket()))
    assert [story.granted(real) for real in reals] == ["1-3", "4-6", None]
    assert story.world.state.shared == CPUSet.of(0, 7)
    assert cpus("1-6") == story.world.state.exclusive
