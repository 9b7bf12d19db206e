"""step by example: what is folded, what is old news, what is looked at in doubt."""

from __future__ import annotations

from sidecar.decide.container.line import Doubt, Ends, Fault, FaultKind
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    CpusetApplied,
    CpusetFailed,
    EngineDisconnected,
    Failure,
    InventoryTaken,
    Purpose,
    RetryDue,
    StopFailed,
    TimerEnded,
    TopologyRead,
)
from sidecar.decide.moves.plan import plan
from sidecar.decide.orders import LookAgain, ReadTopology
from sidecar.decide.step import step
from sidecar.decide.world import replace
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import uniform, with_online
from tests.support.decide.stories import Story, cpus, where

OTHER = ContainerKey("docker", "f" * 64)


def test_a_burst_is_decided_on_once() -> None:
    """Ten arrivals in one burst: each shared container is ordered once, onto the pool without all ten."""
    story = Story(uniform(cores=16))
    plain = story.arrive("plain")
    reals = [story.unseen(f"rt{number}", 1, starts=False) for number in range(10)]
    story.feed(*(ContainerSeen(real.view(), story.ticket()) for real in reals))
    story.settle()
    assert where(plain) == "0,11-15"
    assert len(story.updates(plain)) == 1


def test_deciding_again_decides_nothing() -> None:
    """No fact, no order: the World is the very same one."""
    story = Story()
    story.arrive("plain")
    story.arrive("rt", 2)
    world, orders = step(story.world, [])
    assert world is story.world
    assert orders == ()
    assert plan(world) == (world, ())


def test_an_old_look_is_not_believed_but_asks_for_a_fresh_one() -> None:
    """A start may fall between an order and its answer: no other fact would report it."""
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    story.start(rt)
    story.begin_look(rt.key)
    story.deliver(0, "ok")
    assert story.known(rt).is_idle
    story.deliver_look(0)
    assert story.known(rt).is_idle
    assert story.given[-1] == LookAgain(rt.key)
    story.settle()
    assert not story.known(rt).is_idle
    assert story.is_settled(rt)


def test_an_old_look_that_says_nothing_new_asks_for_nothing() -> None:
    story = Story()
    plain = story.arrive("plain")
    world, orders = step(story.world, [ContainerSeen(plain.view(), 0)])
    assert world is story.world
    assert orders == ()


def test_an_old_inventory_asks_for_a_look_at_containers_that_differ() -> None:
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    story.start(rt)
    began, views = story.ticket(), (rt.view(),)
    story.deliver(0, "ok")
    story.feed(InventoryTaken(views, (), began))
    assert story.given[-1] == LookAgain(rt.key)
    story.settle()
    assert story.is_settled(rt)


def test_an_old_look_at_an_unknown_container_proves_nothing() -> None:
    """It may have been removed since: a fresh look decides."""
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    view, began = rt.view(), story.ticket()
    story.away(rt)
    story.feed(ContainerSeen(view, began))
    assert rt.key not in story.world.containers
    assert story.given[-1] == LookAgain(rt.key)
    story.settle()
    assert story.world.containers == {}


def test_an_old_removal_is_not_believed_but_looked_at() -> None:
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.feed(ContainerRemoved(rt.key, 0))
    assert story.granted(rt) == "1-2"
    assert story.given[-1] == LookAgain(rt.key)
    story.settle()
    assert story.granted(rt) == "1-2"


def test_an_answer_to_another_order_is_ignored() -> None:
    story = Story()
    plain = story.arrive("plain")
    story.arrive("rt", 2)
    order = next(order for order in story.flight if order.container == plain.key)
    world = story.world
    for stranger in (
        CpusetApplied(plain.key, order.number + 99, cpus("7"), story.ticket()),
        CpusetFailed(plain.key, order.number + 99, Failure.FAILED, "no", story.ticket()),
        CpusetApplied(OTHER, order.number, None, story.ticket()),
        CpusetFailed(OTHER, order.number, Failure.LOST, "no", story.ticket()),
        RetryDue(OTHER, 1),
        TimerEnded(OTHER, Purpose.LINGER, 1),
        TimerEnded(plain.key, Purpose.LINGER, 77),
        StopFailed(OTHER, "no"),
    ):
        assert step(world, [stranger]) == (world, ())


def test_a_lost_order_keeps_both_sides_until_a_later_one_is_answered() -> None:
    """It may yet take effect: a look does not end the doubt, the next answer does."""
    story = Story()
    plain = story.arrive("plain")
    story.arrive("rt", 2)
    story.deliver([order.container for order in story.flight].index(plain.key), "lost-late")
    for _ in range(2):
        known = story.known(plain)
        assert CPUSet.from_mask(known.footprint) == cpus("0-7")
        assert known.sure == cpus("0,3-7")
        assert known.may_change_unseen
        story.look(plain)
    story.retry(0)
    story.settle()
    assert not story.known(plain).may_change_unseen
    assert story.known(plain).footprint == cpus("0,3-7").mask


def test_a_failed_order_keeps_both_sides_until_the_next_look() -> None:
    story = Story()
    plain = story.arrive("plain")
    story.arrive("rt", 2)
    story.deliver([order.container for order in story.flight].index(plain.key), "failed-after")
    assert story.given[-1] == LookAgain(plain.key)
    assert story.known(plain).sure == cpus("0,3-7")
    story.look(plain)
    assert story.known(plain).place.seen == cpus("0,3-7")
    assert story.known(plain).place.configured == cpus("0-7")
    assert story.known(plain).doubts == ()
    story.retry(0)
    story.settle()
    assert story.known(plain).place.configured == cpus("0,3-7")


def test_a_refused_order_asks_for_the_machine_and_a_look() -> None:
    """An offline CPU is the usual reason."""
    story = Story()
    rt = story.arrive("rt", 2, starts=False)
    order = story.flight.pop()
    story.feed(CpusetFailed(rt.key, order.number, Failure.REFUSED, "no", story.ticket()))
    assert story.given[-2:] == [ReadTopology(), LookAgain(rt.key)]


def test_an_order_of_a_container_that_is_gone_forgets_it() -> None:
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.end(rt)
    story.time_out(-1)
    order = next(order for order in story.flight if order.container == rt.key)
    story.remove(rt)
    story.flight.remove(order)
    story.feed(CpusetFailed(rt.key, order.number, Failure.GONE, "No such container", story.ticket()))
    story.settle()
    assert rt.key not in story.world.containers
    assert where(plain) == "0-7"


def test_an_order_whose_look_contradicts_it_is_doubted() -> None:
    """A look while it was outstanding showed somewhere else: neither is the last word."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.tamper(rt, cpus("1-3"))
    story.look(rt)
    story.land(0)
    order = story.flight.pop()
    story.tamper(rt, cpus("5"))
    story.look(rt)
    story.feed(CpusetApplied(rt.key, order.number, order.update.cpus, story.ticket()))
    assert story.known(rt).doubts == (Doubt(cpus("5"), Ends.LOOK),)
    assert story.given[-1] == LookAgain(rt.key)
    story.settle()
    assert where(rt) == "1-2"


def test_a_stop_that_failed_is_told() -> None:
    story = Story()
    story.arrive("first", 7)
    second = story.arrive("second", 1, labels={"cpuset.on-shortage": "stop"})
    story.feed(StopFailed(second.key, "it cannot be stopped: 500"))
    assert story.known(second).fault == Fault(FaultKind.NOT_STOPPED, "it cannot be stopped: 500")


def test_a_stop_that_failed_is_ordered_again() -> None:
    """Until the container has stopped, and not while a stop is outstanding."""
    story = Story()
    story.arrive("first", 7)
    second = story.arrive("second", 1, labels={"cpuset.on-shortage": "stop"})
    story.take_inventory()
    assert story.stops() == ["second"]
    story.deliver_stop(0, fails=True)
    assert story.stops() == ["second", "second"]
    story.settle()
    assert not story.known(second).view.phase.is_live
    assert story.stops() == ["second", "second"]


def test_a_lost_engine_stops_all_orders() -> None:
    story = Story()
    plain = story.arrive("plain")
    story.feed(EngineDisconnected("reset"))
    assert not story.world.is_ready
    story.unseen("rt", 2)
    assert story.applied() == []
    story.connect()
    story.settle()
    assert where(plain) == "0,3-7"


def test_the_same_machine_is_no_news() -> None:
    story = Story()
    story.arrive("plain")
    given = len(story.given)
    world = story.world
    story.feed(TopologyRead(story.machine))
    assert story.world is world
    assert len(story.given) == given


def test_an_answer_that_shows_only_offline_cpus_leaves_its_place_in_doubt() -> None:
    """They went offline after the order was carried out: the kernel runs it on others."""
    story = Story()
    plain = story.arrive("plain")
    story.arrive("rt", 2)
    order = next(order for order in story.flight if order.container == plain.key)
    gone = replace(story.world, topology=with_online(story.world.topology, cpus("0-6")))
    world, _ = step(gone, [CpusetApplied(plain.key, order.number, cpus("7"), story.ticket())])
    assert CPUSet.from_mask(world.containers[plain.key].footprint) >= gone.topology.online
