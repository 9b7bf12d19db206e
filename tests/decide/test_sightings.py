"""An inventory that was overtaken: its views are believed until a look contradicts them, and no State is lost."""

from __future__ import annotations

import pytest

from sidecar.decide.contacts import Away
from sidecar.decide.container.container import Standing
from sidecar.decide.facts import (
    ContainerRemoved,
    ContainerSeen,
    ContainerView,
    EngineConnected,
    EngineDisconnected,
    EngineInfo,
    InventoryTaken,
    Phase,
    SettingsChanged,
)
from sidecar.decide.orders import ApplyCpuset, LookAgain, StartTimer, StopContainer
from sidecar.decide.reconcile import begin
from sidecar.decide.settings import OptIn, PolicyName, Settings
from sidecar.decide.sightings import differs, sighted
from sidecar.decide.step import step
from sidecar.decide.world import World, replace, without
from state.codec import to_builtins
from state.cpuset import CPUSet
from state.demand import Demand
from state.key import ContainerKey
from state.model import Originals, State
from state.refusal import Asked
from state.topology import uniform
from tests.support.decide.real import ENGINE as REALITY
from tests.support.decide.real import Real
from tests.support.decide.rights import EVERY_RIGHT
from tests.support.decide.stories import Story, cpus, static, where

ID = ContainerKey("docker", "a" * 64)
OTHER = ContainerKey("docker", "b" * 64)
ENGINE = EngineConnected(EngineInfo(name="docker", version="26.1.5", api_version="1.45", ncpu=4), 0)


def _view(key: ContainerKey, **fields: object) -> ContainerView:
    labels = {"cpuset.exclusive": "1"}
    who = {"engine": key.engine, "id": key.id, "name": key.id[:4]}
    return ContainerView(**who, phase=Phase.RUNNING, labels=labels, **fields)  # type: ignore[arg-type]


def _world_with_books() -> World:
    """Return a World just started, with the State of an earlier run: a container that holds CPU 1, and was not pinned
    before.
    """
    settings = Settings(may=EVERY_RIGHT, policy=PolicyName.STATIC, reserved_cpus=CPUSet.of(0))
    state = State(policy="static", online=CPUSet.parse("0-3"), reserved=CPUSet.of(0))
    state = state.granted(Demand(container=ID, name=ID.id[:4], cpus=1), CPUSet.of(1)).remembering(
        ID, Originals(cgroup_parent="")
    )
    return begin(state, uniform(cores=4), settings)


def test_books_survive_an_inventory_during_which_another_container_was_removed() -> None:
    """The first inventory after a start is slow, and a removal overtakes it: grants and originals stay as they are."""
    pinned = _view(ID, cpuset="1", effective=CPUSet.of(1))
    facts = (ENGINE, ContainerRemoved(OTHER, 5), InventoryTaken((pinned,), (), 1))
    world, orders = step(_world_with_books(), facts)
    assert world.state.assignments[ID].cpus == CPUSet.of(1)
    assert world.state.originals[ID] == Originals(cgroup_parent="")
    assert world.containers[ID].wish.standing is Standing.MANAGED
    assert LookAgain(ID) in orders


def test_a_container_that_was_removed_during_the_inventory_is_gone_with_the_next_look() -> None:
    """It is believed for a moment; the requested look then removes it, with its records."""
    seen = _view(ID, cpuset="1", effective=CPUSet.of(1))
    world, orders = step(_world_with_books(), (ENGINE, ContainerRemoved(ID, 5), InventoryTaken((seen,), (), 1)))
    assert LookAgain(ID) in orders
    world, _ = step(world, (ContainerRemoved(ID, 6),))
    assert not world.containers
    assert not world.state.assignments
    assert not world.state.originals


def test_an_inventory_from_before_the_connection_makes_nothing_ready() -> None:
    """A container may have come in between, unseen: nothing is ordered before an inventory that begins later."""
    plain = _view(OTHER, effective=CPUSet.parse("0-3"))
    late = EngineConnected(ENGINE.engine, 2)
    world, orders = step(_world_with_books(), (late, InventoryTaken((plain,), (), 1)))
    assert not world.is_ready
    assert not [order for order in orders if isinstance(order, ApplyCpuset)]
    world, _ = step(world, (InventoryTaken((), (), 3),))
    assert world.is_ready


def test_an_inventory_while_the_engine_is_away_makes_nothing_ready() -> None:
    world, _ = step(_world_with_books(), (ENGINE, EngineDisconnected("gone"), InventoryTaken((), (), 1)))
    assert [each.readiness for each in world.contacts.values()] == [Away("gone")]


def test_what_an_older_inventory_brings_back_is_not_ordered_at_once() -> None:
    """After that inventory began, the answer to its last order said that it is gone: it is looked at, not ordered."""
    story = Story()
    rt = story.unseen("rt", 2)
    story.look(rt)
    story.disconnect()
    story.feed(EngineConnected(EngineInfo(name=REALITY, version="1", api_version="1.41", ncpu=8), story.ticket()))
    story.is_reached = True
    story.begin_inventory()
    story.remove(rt)
    story.deliver(0, "ok")
    given = len(story.given)
    story.deliver_inventory(0)
    assert story.given[given:] == [LookAgain(rt.key)]
    story.settle()
    assert rt.key not in story.world.containers


def test_what_may_be_gone_is_not_stopped_before_it_was_looked_at() -> None:
    """It asks for more CPUs than exist, and to be stopped in that case."""
    seen = _view(OTHER, effective=CPUSet.parse("0-3"), started_at="1")
    seen = replace(seen, labels={"cpuset.exclusive": "9", "cpuset.on-shortage": "stop"})
    facts = (ENGINE, ContainerRemoved(ID, 5), InventoryTaken((seen,), (), 1))
    world, orders = step(_world_with_books(), facts)
    assert OTHER in world.state.refusals
    assert [order for order in orders if not isinstance(order, StartTimer)] == [LookAgain(OTHER)]
    _, orders = step(world, (ContainerSeen(seen, 6),))
    assert StopContainer in {type(order) for order in orders}


def test_what_an_old_removal_disputes_is_looked_at_before_it_is_ordered() -> None:
    """Its removal is older than the answer to its order: only a look says whether it exists."""
    story = Story()
    rt = story.arrive("rt", 2)
    began = story.ticket()
    story.settle()
    changed = SettingsChanged(to_builtins(static(reserved_cpus=CPUSet.of(0, 1))))
    world, orders = step(story.world, (ContainerRemoved(rt.key, began), changed))
    assert str(world.state.assignments[rt.key].cpus) == "2-3"
    assert orders == (LookAgain(rt.key),)
    _, orders = step(world, (ContainerSeen(rt.view(), story.ticket()),))
    assert [type(order) for order in orders] == [ApplyCpuset]


def test_an_inventory_tells_of_what_is_disputed_though_nothing_else_is_new() -> None:
    """The look that was asked for may have failed: an inventory is the next one."""
    seen = _view(ID, cpuset="1", effective=CPUSet.of(1))
    world, _ = step(_world_with_books(), (ENGINE, ContainerRemoved(OTHER, 5), InventoryTaken((seen,), (), 1)))
    assert world.containers[ID].is_disputed
    assert differs(world, seen)
    world, _ = step(world, (InventoryTaken((seen,), (), 6),))
    assert not world.containers[ID].is_disputed
    assert not differs(world, seen)


def test_a_look_that_is_older_than_a_removal_ends_no_dispute() -> None:
    """Two inventories were overtaken by the removal: the container is not stopped, and is looked at again."""
    seen = _view(OTHER, effective=CPUSet.parse("0-3"), started_at="1")
    seen = replace(seen, labels={"cpuset.exclusive": "9", "cpuset.on-shortage": "stop"})
    facts = (ENGINE, ContainerRemoved(OTHER, 5), InventoryTaken((seen,), (), 1))
    world, _ = step(_world_with_books(), facts)
    world, orders = step(world, (InventoryTaken((seen,), (), 2),))
    assert world.containers[OTHER].is_disputed
    assert orders == (LookAgain(OTHER),)
    world, _ = step(world, (ContainerRemoved(OTHER, 6),))
    assert OTHER not in world.containers


# What a container is follows from what it shows now and from the State, not from when it was first seen.


def _standing(story: Story, real: Real) -> Standing:
    return story.known(real).wish.standing


def test_what_is_kept_out_and_then_pinned_is_a_stranger_at_once() -> None:
    """As it would be after a restart."""
    story = Story()
    monitor = story.arrive("monitor", labels={"cpuset.manage": "off"})
    assert _standing(story, monitor) is Standing.UNMANAGED
    story.tamper(monitor, CPUSet.of(5))
    story.look(monitor)
    assert _standing(story, monitor) is Standing.STRANGER
    story.crash([True])
    assert _standing(story, monitor) is Standing.STRANGER


def test_records_have_the_present_name_of_a_container() -> None:
    """Of one that was renamed while the sidecar ran, or while it did not; nothing else changes."""
    story = Story()
    rt = story.arrive("rt", 2)
    big = story.arrive("big", 99)
    story.settle()
    for real in (rt, big):
        known = story.known(real).view
        seen = replace(known, name=f"new-{known.name}")
        story.feed(ContainerSeen(seen, story.world.containers[real.key].known + 1))
    state = story.world.state
    assert (state.assignments[rt.key].name, state.refusals[big.key].name) == ("new-rt", "new-big")
    assert len(state.assignments[rt.key].cpus) == 2
    # The engine's own name is the old one, which the first look after a restart shows.
    story.crash([True])
    story.settle()
    state = story.world.state
    assert (state.assignments[rt.key].name, state.refusals[big.key].name) == ("rt", "big")


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "shares"])
@pytest.mark.parametrize("pinned", [False, True], ids=["holds", "is pinned"])
def test_the_refusals_of_others_have_the_present_name_of_a_container(waits: bool, pinned: bool) -> None:
    """Of one that holds the CPUs, or is pinned to them; also if the refused one is not asked again."""
    story = Story(uniform(cores=2))
    holder = story.arrive("s1", cpuset="1") if pinned else story.arrive("s1", 1)
    late = story.arrive("late", 1, labels={"cpuset.on-shortage": "wait"} if waits else {})
    story.settle()
    assert "s1" in story.why_refused(late)
    holder.name = "s2"
    story.look(holder)
    story.settle()
    assert "s2" in story.why_refused(late)
    assert "s1" not in story.why_refused(late)


def test_a_name_that_a_glance_showed_first_is_in_the_records_after_a_look() -> None:
    """Renamed while the sidecar was down, and glanced at because its start was held."""
    story = Story(uniform(cores=2))
    holder, late = story.arrive("s1", 1), story.arrive("late", 1)
    story.settle()
    shown = replace(story.known(holder).view, name="s2")
    unseen = without(story.world.containers, holder.key)
    news = story.known(holder).known + 1
    world = sighted(replace(story.world, containers=unseen), replace(shown, is_glance=True), news)
    world = sighted(world, shown, news + 1)
    assert world.state.assignments[holder.key].name == "s2"
    detail = world.state.refusals[late.key].refusal.detail
    assert isinstance(detail, Asked)
    assert detail.neighbours is not None
    assert detail.neighbours.holder_names == ("s2",)


def test_a_change_of_what_was_never_ordered_is_drift() -> None:
    """What it was at first sight is remembered, also through a restart before it is put back."""
    story = Story()
    plain = story.arrive("plain")
    assert story.applied() == []
    story.tamper(plain, CPUSet.of(5))
    story.crash([True])
    story.settle()
    assert _standing(story, plain) is Standing.MANAGED
    assert where(plain) == "0-7"


def test_a_pin_that_is_taken_back_is_no_pin() -> None:
    """An engine cannot clear a cpuset: all CPUs are written."""
    story = Story()
    story.arrive("rt", 2)
    pinned = story.arrive("pinned", cpuset="5")
    story.settle()
    assert _standing(story, pinned) is Standing.STRANGER
    story.tamper(pinned, cpus("0-7"))
    story.look(pinned)
    story.settle()
    assert _standing(story, pinned) is Standing.MANAGED
    assert where(pinned) == "0,3-7"


def test_a_change_of_what_was_granted_is_drift_though_no_order_was_needed() -> None:
    """It kept its own CPUs, and was never ordered anywhere."""
    story = Story()
    rt = story.arrive("rt", 2, cpuset="5-6")
    story.settle()
    assert story.applied() == []
    story.tamper(rt, CPUSet.of(3))
    story.look(rt)
    story.crash([True])
    story.settle()
    assert (story.granted(rt), where(rt)) == ("5-6", "5-6")


def test_what_a_container_asks_for_by_its_limits_follows_them() -> None:
    """A limit of memory that is set later, and no longer equals the reservation."""
    story = Story(opt_in=OptIn.GUARANTEED)
    view = ContainerView(engine=REALITY, id="e" * 64, name="g", phase=Phase.RUNNING, nano_cpus=10**9, memory=1 << 20)
    for ticket, each in enumerate((view, replace(view, memory_reservation=1 << 19)), story.tickets + 1):
        story.world = step(story.world, [ContainerSeen(each, ticket)])[0]
        assert (story.world.containers[view.key].wish.demand is None) == bool(each.memory_reservation)


def test_an_inventory_without_a_list_ends_nothing_and_delays_no_newcomer() -> None:
    """A look may have begun before it and end after it: the container that this shows is as new as any."""
    world, _ = step(_world_with_books(), (ENGINE, InventoryTaken((_view(ID, effective=CPUSet.of(1)),), (), 1)))
    inventory = InventoryTaken((), (), 9, has_list=False)
    newcomer = ContainerSeen(_view(OTHER, cpuset="", effective=CPUSet.parse("0-3")), 5)
    after, orders = step(step(world, (inventory,))[0], (newcomer,))
    assert ID in after.state.assignments
    assert OTHER in after.state.assignments
    assert LookAgain(OTHER) not in orders
    _, orders = step(step(world, (InventoryTaken((), (), 9),))[0], (newcomer,))
    assert LookAgain(OTHER) in orders
