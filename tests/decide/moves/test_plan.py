"""Vacate before occupy by example: which container leaves, enters, waits or is parked, and at what cost."""

from __future__ import annotations

import pytest

from sidecar.decide.container.line import Sent
from sidecar.decide.container.place import Place
from sidecar.decide.facts import CpusetFailed, Failure, OrderDelayed, RetryDue
from sidecar.decide.moves.plan import SLOTS, SWEEP_SLOTS
from sidecar.decide.moves.target import target
from sidecar.decide.orders import Update
from sidecar.decide.world import World, replace
from sidecar.simulation.model_limits import Limits, changed
from state.cpuset import EMPTY, CPUSet
from state.topology import uniform
from tests.support.decide.stories import GIGA, Story, cpus, fault_of, where


def test_an_arrival_vacates_then_occupies() -> None:
    """An exclusive container that already runs enters its CPUs only when all others have left them."""
    story = Story()
    plain = story.arrive("plain")
    rt = story.unseen("rt", 2)
    story.look(rt)
    # It shrinks onto CPUs that only it may be on: the reserved CPUs, while the pool leaves.
    assert (story.pending(plain), story.pending(rt)) == ("0,3-7", "1-2")
    assert not story.is_settled(rt)
    story.settle()
    assert (where(plain), where(rt)) == ("0,3-7", "1-2")
    assert story.is_settled(rt)
    assert len(story.updates(plain)) == len(story.updates(rt)) == 1


def test_it_is_settled_only_when_the_last_one_has_left() -> None:
    story = Story()
    plain = story.arrive("plain")
    rt = story.unseen("rt", 2)
    story.look(rt)
    story.deliver([order.container for order in story.flight].index(rt.key), "ok")
    assert where(rt) == "1-2"
    assert not story.is_settled(rt)
    story.settle()
    assert where(plain) == "0,3-7"
    assert story.is_settled(rt)


def test_a_newcomer_is_written_onto_its_whole_grant_at_once() -> None:
    """It runs nothing yet, so its first instruction sees the right number, although the pool has not left."""
    story = Story()
    story.arrive("plain")
    rt = story.arrive("rt", 3, starts=False)
    assert story.pending(rt) == "1-3"


def test_a_newcomer_is_never_written_onto_another_exclusives_footprint() -> None:
    """It starts on the free part of its grant, and gets the rest when the other container has left."""
    story = Story()
    old = story.arrive("old", 1)
    story.settle()
    story.tamper(old, cpus("1-2"))
    story.look(old)
    rt = story.arrive("rt", 2, starts=False)
    assert (story.granted(rt), story.pending(rt)) == ("2-3", "3")
    story.settle()
    assert (where(old), where(rt)) == ("1", "stopped 2-3")


def test_a_newcomer_with_nothing_free_is_parked_and_widened_later() -> None:
    """Another tool widened an exclusive container onto its whole grant."""
    story = Story()
    old = story.arrive("old", 1)
    story.settle()
    story.tamper(old, cpus("1-3"))
    story.look(old)
    rt = story.arrive("rt", 2, starts=False)
    assert (story.granted(rt), story.pending(rt)) == ("2-3", "0")
    story.settle()
    assert (where(old), where(rt)) == ("1", "stopped 2-3")
    assert [str(update.cpus) for update in story.updates(rt)] == ["0", "2-3"]


def test_a_swap_parks() -> None:
    """Two containers must change places: one goes through the reserved CPUs, and neither waits indefinitely."""
    story = Story(uniform(cores=3))
    one, two = story.arrive("one", 1), story.arrive("two", 1)
    story.settle()
    assert (where(one), where(two)) == ("1", "2")
    story.tamper(one, cpus("2"))
    story.tamper(two, cpus("1"))
    story.take_inventory()
    assert {story.pending(one), story.pending(two)} == {"0"}
    story.settle()
    assert (where(one), where(two)) == ("1", "2")
    assert story.is_settled(one)
    assert story.is_settled(two)


def test_no_container_is_moved_off_a_cpu_that_it_is_granted() -> None:
    """Another tool widened it: it goes back, and never leaves its own CPUs."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.tamper(rt, cpus("1-4"))
    story.look(rt)
    assert story.pending(rt) == "1-2"
    story.settle()
    assert story.is_settled(rt)


def test_one_order_at_a_time_for_a_container() -> None:
    """News in between is planned once the answer is there, from the newest World."""
    story = Story()
    plain = story.arrive("plain")
    story.arrive("one", 1)
    assert story.pending(plain) == "0,2-7"
    story.arrive("two", 1)
    story.arrive("three", 1)
    assert len(story.updates(plain)) == 1
    story.settle()
    assert where(plain) == "0,4-7"
    assert len(story.updates(plain)) == 2


def test_at_most_so_many_orders_are_outstanding() -> None:
    """One slot is kept for newcomers, so that none waits behind a sweep."""
    story = Story(uniform(cores=32))
    for number in range(12):
        story.arrive(f"plain{number}")
    rt = story.unseen("rt", 1, cpuset="1")
    story.look(rt)
    assert len(story.flight) == SWEEP_SLOTS
    newcomer = story.arrive("newcomer", 1, starts=False)
    assert story.pending(newcomer) == "2"
    assert len(story.flight) == SLOTS
    story.arrive("another", 1, starts=False)
    assert len(story.flight) == SLOTS


def test_orders_that_hang_keep_no_other_container_waiting() -> None:
    """However many locks are held: an order gives its slot away once it is late."""
    story = Story(uniform(cores=32))
    for number in range(100):
        story.arrive(f"plain{number}")
    rt = story.unseen("rt", 1, cpuset="1")
    story.look(rt)
    while late := [order for order in story.flight if story.world.containers[order.container].line == Sent(order)]:
        story.feed(OrderDelayed(late[0].container, late[0].number))
    assert len(story.flight) == 100
    assert len({order.container for order in story.flight}) == len(story.flight)


def test_a_slow_container_takes_no_slot_of_another() -> None:
    """Its next order has a slot beside theirs; one order that is answered in time ends that."""
    story = Story(uniform(cores=32))
    slow = [story.arrive(f"slow{number}") for number in range(20)]
    story.look(story.unseen("rt", 1, cpuset="1"))
    while story.flight:
        story.feed(OrderDelayed(story.flight[0].container, story.flight[0].number))
        story.deliver(0, "ok")
    assert all(story.known(real).is_slow for real in slow)
    others = [story.arrive(f"other{number}") for number in range(SWEEP_SLOTS)]
    story.settle()
    story.look(story.unseen("another", 1, cpuset="2"))
    ordered = {order.container for order in story.flight}
    assert {real.key for real in others} <= ordered
    assert len(ordered) == 2 * SWEEP_SLOTS
    story.settle()
    assert not any(story.known(real).is_slow for real in slow)


@pytest.mark.parametrize("arrivals", [1, 10])
def test_a_burst_of_arrivals_costs_each_shared_container_at_most_two_updates(arrivals: int) -> None:
    """50 shared containers: 50 updates for one arrival, and about as many for ten, not 500."""
    story = Story(uniform(cores=32))
    shared = [story.arrive(f"plain{number}") for number in range(50)]
    story.settle()
    assert story.applied() == []
    exclusive = [story.unseen(f"rt{number}", 1, starts=False) for number in range(arrivals)]
    for real in exclusive:
        story.begin_look(real.key)
    while story.looks:
        story.deliver_look(0)
    for real in exclusive:
        story.start(real)
        story.begin_look(real.key)
    story.settle()
    costs = story.costs()
    assert all(story.is_settled(real) for real in exclusive)
    assert max(costs[real.key] for real in shared) <= 2
    assert sum(costs[real.key] for real in shared) <= 50 + (0 if arrivals == 1 else SLOTS)
    assert {where(real) for real in shared} == {str(CPUSet(range(32)) - CPUSet(range(1, arrivals + 1)))}


def test_a_failure_leaves_both_sides_in_the_footprint() -> None:
    """Until the next look, it may be on either set, and no other container enters them."""
    story = Story()
    plain = story.arrive("plain")
    rt = story.unseen("rt", 2, cpuset="")
    story.look(rt)
    story.deliver([order.container for order in story.flight].index(plain.key), "lost-late")
    known = story.known(plain)
    assert CPUSet.from_mask(known.footprint) == cpus("0-7")
    assert known.sure == cpus("0,3-7")
    assert not story.is_settled(rt)


def test_a_refused_update_is_not_repeated_until_its_pause_is_over() -> None:
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    order = story.flight.pop()
    story.feed(CpusetFailed(rt.key, order.number, Failure.REFUSED, "Requested CPUs are not available", story.ticket()))
    story.look(rt)
    story.take_inventory()
    assert story.flight == []
    assert len(story.updates(rt)) == 1
    assert fault_of(story, rt) == "Requested CPUs are not available"
    story.retries.append(RetryDue(rt.key, order.number))
    story.retry(0)
    assert len(story.updates(rt)) == 2
    story.settle()
    assert story.known(rt).fault is None


def test_the_pause_of_one_order_does_not_end_that_of_another() -> None:
    """A refused order waits longest; its pause once ended that of an order that had just failed for other reasons."""
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    refused = story.flight.pop()
    story.feed(CpusetFailed(rt.key, refused.number, Failure.REFUSED, "no", story.ticket()))
    story.again(rt)
    failed = story.flight.pop()
    story.feed(CpusetFailed(rt.key, failed.number, Failure.FAILED, "500", story.ticket()))
    story.look(rt)
    story.feed(RetryDue(rt.key, refused.number))
    assert story.flight == []
    story.feed(RetryDue(rt.key, failed.number))
    assert [order.container for order in story.flight] == [rt.key]


def test_a_refused_update_is_asked_again_at_a_new_start() -> None:
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    order = story.flight.pop()
    story.feed(CpusetFailed(rt.key, order.number, Failure.REFUSED, "no", story.ticket()))
    story.again(rt)
    assert len(story.updates(rt)) == 2


def test_an_update_without_effect_waits_and_is_tried_again() -> None:
    """200 but the kernel shows something else: known to be there, and tried again when the pause is over."""
    story = Story()
    rt = story.unseen("rt", 2)
    story.look(rt)
    order = story.flight.pop()
    story.store(rt, changed(order.update))
    outcome = CpusetFailed(rt.key, order.number, Failure.INEFFECTIVE, "confined", story.ticket(), cpus("0-7"))
    story.feed(outcome)
    assert story.known(rt).place.seen == cpus("0-7")
    assert story.known(rt).place.configured == cpus("1-2")
    assert story.flight == []
    assert not story.is_settled(rt)
    assert fault_of(story, rt) == "confined"
    story.retries.append(RetryDue(rt.key, order.number))
    story.retry(0)
    story.settle()
    assert story.is_settled(rt)
    assert story.known(rt).fault is None


def test_what_made_itself_good_is_no_trouble_any_more() -> None:
    """The kernel lets it run on its configured CPUs after all, before the pause is over."""
    story = Story()
    rt = story.unseen("rt", 2)
    story.look(rt)
    order = story.flight.pop()
    story.store(rt, changed(order.update))
    story.feed(CpusetFailed(rt.key, order.number, Failure.INEFFECTIVE, "confined", story.ticket(), cpus("0-7")))
    story.write(rt, order.update.cpus)
    story.look(rt)
    assert story.known(rt).fault is None


# CPU limits.


@pytest.mark.parametrize(
    ("limits", "lifted", "restored"),
    [
        ({"nano_cpus": 2 * GIGA}, (8 * GIGA, None), (2 * GIGA, None)),
        ({"quota": 200_000}, (None, -1), (None, 200_000)),
        ({}, (None, None), (None, None)),
    ],
)
def test_a_limit_is_lifted_and_put_back(
    limits: dict[str, int], lifted: tuple[int | None, int | None], restored: tuple[int | None, int | None]
) -> None:
    """In the one call that pins it, in the way that can be undone: nano CPUs to the engine's ceiling, a quota to -1."""
    story = Story()
    nano, quota = limits.get("nano_cpus", 0), limits.get("quota", 0)
    rt = story.arrive("rt", 2, nano_cpus=nano, quota=quota)
    story.settle()
    assert story.updates(rt) == [Update(cpus=cpus("1-2"), nano_cpus=lifted[0], cpu_quota=lifted[1])]
    assert story.world.state.originals[rt.key].nano_cpus == nano
    story.end(rt)
    story.time_out(-1)
    story.settle()
    assert story.updates(rt)[1:] == [Update(cpus=cpus("0-7"), nano_cpus=restored[0], cpu_quota=restored[1])]
    assert (rt.nano_cpus, rt.cpu_quota) == (nano, quota)


def test_a_limit_that_is_to_be_kept_is_kept() -> None:
    story = Story()
    rt = story.arrive("rt", 2, nano_cpus=2 * GIGA, labels={"cpuset.quota": "keep"})
    story.settle()
    assert story.updates(rt) == [Update(cpus=cpus("1-2"))]


def test_a_limit_that_somebody_changed_since_is_theirs() -> None:
    """While it has its grant, the limit is lifted again; after that, a limit that is no longer as lifted is not
    restored.
    """
    story = Story()
    rt = story.arrive("rt", 2, nano_cpus=2 * GIGA)
    story.settle()
    story.end(rt)
    story.time_out(-1)
    story.store(rt, Limits(nano_cpus=3 * GIGA))
    order = story.flight.pop()
    story.feed(CpusetFailed(rt.key, order.number, Failure.FAILED, "500", story.ticket()))
    story.look(rt)
    story.retries.append(RetryDue(rt.key, order.number))
    story.retry(0)
    story.settle()
    assert (where(rt), rt.nano_cpus) == ("stopped 0-7", 3 * GIGA)


def test_a_limit_is_never_lifted_above_what_is_online() -> None:
    """A CPU went offline: the engine would refuse the former count, and with it the pin, indefinitely."""
    story = Story(uniform(cores=64))
    story.toggle_cpu(63)
    story.read_topology()
    rt = story.arrive("rt", 2, nano_cpus=2 * GIGA)
    assert story.updates(rt)[0].nano_cpus == 63 * GIGA


def test_shared_containers_keep_their_limits() -> None:
    story = Story()
    plain = story.arrive("plain", nano_cpus=GIGA)
    story.arrive("rt", 1)
    story.settle()
    assert story.updates(plain) == [Update(cpus=cpus("0,2-7"))]


def test_a_target_is_never_empty() -> None:
    """Whatever CPUs are taken: at worst, it is the reserved CPUs."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    world: World = story.world
    everywhere = replace(world.reach, touched=-1, crowded=-1, exclusive=-1, contested=-1)
    container = replace(story.known(rt), place=Place(EMPTY, EMPTY))
    assert target(world, container, cpus("1-2"), everywhere) == cpus("0")


def test_nothing_is_ordered_before_the_first_inventory() -> None:
    """Nor while the engine is away."""
    story = Story()
    story.disconnect()
    plain = story.arrive("plain")
    rt = story.arrive("rt", 2)
    assert story.applied() == []
    assert story.granted(rt) is None
    story.connect()
    story.settle()
    assert (where(rt), where(plain)) == ("1-2", "0,3-7")
