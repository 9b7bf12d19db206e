"""Folding looks, inventories, machines and settings into the World, by example."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.container.place import Place
from sidecar.decide.facts import ContainerView, InventoryTaken, Phase, TopologyRead
from sidecar.decide.reconcile import begin, on_machine, with_settings
from sidecar.decide.settings import PolicyName, Settings
from sidecar.decide.sightings import differs, sighted
from sidecar.decide.world import replace
from sidecar.words.repairs import noted
from state.cpuset import CPUSet
from state.invariants import violations
from state.model import Originals, State
from state.refusal import RefusalCode
from state.topology import Topology, topology, uniform
from tests.support.decide.carried import refitted
from tests.support.decide.rights import EVERY_RIGHT
from tests.support.decide.stories import Story, cpus, static, where


def without(machine: Topology, offline: str) -> Topology:
    return topology(cores=[core.cpus - cpus(offline) for core in machine.cores if core.cpus - cpus(offline)])


# Drift.


def test_another_tools_update_of_a_shared_container_is_repaired() -> None:
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.tamper(plain, cpus("1,5"))
    story.take_inventory()
    assert not story.is_settled(rt)
    story.settle()
    assert where(plain) == "0,3-7"
    assert story.is_settled(rt)


def test_a_kernel_that_differs_from_the_engine_is_repaired() -> None:
    """The engine says 1-2, and another tool wrote the cgroup: the kernel's value counts."""
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.write(rt, cpus("1"))
    story.take_inventory()
    assert not story.is_settled(rt)
    story.settle()
    assert where(rt) == "1-2"


def test_an_engine_that_forgets_says_nothing_of_running_containers() -> None:
    """It reports what the container was created with; the kernel reports what is in force. A stopped container would
    start so.
    """
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    view = msgspec.structs.replace(rt.view(), cpuset="", forgets_updates=True)
    world = sighted(begin(story.world.state, story.world.topology, story.world.settings), view, began=1)
    assert world.containers[rt.key].place == Place(cpus("1-2"), cpus("1-2"))
    stopped = msgspec.structs.replace(view, phase=Phase.EXITED, effective=None)
    assert sighted(world, stopped, began=2).containers[rt.key].place.configured == cpus("0-7")


def test_a_stopped_container_that_another_tool_changed_is_put_back() -> None:
    """Otherwise it would start on another container's CPUs."""
    story = Story()
    plain = story.arrive("plain", starts=False)
    story.arrive("rt", 2)
    story.settle()
    story.tamper(plain, cpus("1"))
    story.take_inventory()
    story.settle()
    assert where(plain) == "stopped 0,3-7"


def test_an_inventory_without_news_changes_nothing() -> None:
    story = Story()
    story.arrive("plain")
    story.arrive("rt", 2)
    story.settle()
    given = len(story.given)
    story.take_inventory()
    story.settle()
    assert len(story.given) == given


def test_what_an_inventory_need_not_tell() -> None:
    """It omits views that are known already, unless their container is in doubt."""
    story = Story()
    plain = story.arrive("plain")
    assert not differs(story.world, plain.view())
    assert differs(story.world, replace(plain.view(), name="renamed"))
    assert differs(story.world, replace(plain.view(), id="f" * 64))
    story.arrive("rt", 2)
    story.deliver([order.container for order in story.flight].index(plain.key), "failed")
    assert differs(story.world, plain.view())


def test_a_container_in_no_inventory_is_gone() -> None:
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.remove(rt)
    story.take_inventory()
    story.settle()
    assert (where(plain), len(story.world.state.assignments)) == ("0-7", 0)


def test_a_container_that_came_after_the_inventory_began_is_not_gone() -> None:
    story = Story()
    began = story.ticket()
    rt = story.arrive("rt", 2)
    story.feed(InventoryTaken((), (rt.key,), began))
    assert story.granted(rt) == "1-2"


def test_a_rename_is_known_and_its_wish_read_again() -> None:
    story = Story(unmanaged=("db-*",))
    rt = story.arrive("rt", 2)
    story.settle()
    rt.name = "game"
    story.look(rt)
    assert story.known(rt).view.name == "game"
    assert story.granted(rt) == "1-2"
    rt.name = "db-1"
    story.look(rt)
    assert story.granted(rt) is None


def test_books_of_containers_that_are_gone_are_closed_at_the_first_inventory() -> None:
    """After a crash: granted in the checkpoint, and removed while the daemon was down."""
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.remove(rt)
    story.crash([True])
    story.settle()
    assert where(plain) == "0-7"
    assert (story.world.state.assignments, rt.key in story.world.state.originals) == ({}, False)


def test_a_crash_changes_nothing_for_those_that_are_settled() -> None:
    story = Story()
    story.arrive("plain")
    rt = story.arrive("rt", 2)
    story.settle()
    given = len(story.applied())
    story.crash([True])
    story.settle()
    assert story.granted(rt) == "1-2"
    assert story.is_settled(rt)
    assert len(story.applied()) == given


# The machine changes.


def test_a_grant_that_loses_a_cpu_gets_another() -> None:
    """It keeps the rest, and moves through free CPUs."""
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.hotplug(2)
    assert (where(rt), where(plain)) == ("1,3", "0,4-7")
    assert story.is_settled(rt)
    assert [noted(each) for each in story.world.notes] == ["rt moved from CPUs 1-2 to 1,3"]
    assert story.world.state.assignments[rt.key].original == cpus("1")


def test_a_grant_that_cannot_be_made_whole_is_refused() -> None:
    story = Story(uniform(cores=4))
    rt = story.arrive("rt", 3)
    story.settle()
    story.hotplug(3)
    assert story.refusal(rt).code is RefusalCode.CPUS_LOST
    assert where(rt) == "0-2"
    assert "rt lost its exclusive CPUs" in noted(story.world.notes[0])


def test_cpus_that_come_back_are_shared() -> None:
    story = Story()
    plain = story.arrive("plain")
    story.arrive("rt", 2)
    story.settle()
    for _ in range(2):
        story.hotplug(7)
    assert where(plain) == "0,3-7"


def test_cpus_that_come_back_are_everybodys_until_a_look() -> None:
    """A container that is being started cannot be looked at, and may begin on CPUs that came online meanwhile."""
    machine = uniform(cores=8)
    world = begin(State(), without(machine, "4-7"), static())
    glance = ContainerView(id="a" * 64, name="a", phase=Phase.CREATED, is_glance=True)
    pinned = ContainerView(id="b" * 64, name="b", phase=Phase.RUNNING, cpuset="1,5", effective=cpus("1"))
    for number, view in enumerate((glance, pinned), 1):
        world = sighted(world, view, number)
    world = with_settings(on_machine(world, machine), world.settings)
    one, two = (world.containers[view.key] for view in (glance, pinned))
    assert one.footprint == cpus("0-7").mask
    assert two.footprint == cpus("1,5").mask
    looked = sighted(world, msgspec.structs.replace(glance, is_glance=False, cpuset="2"), 3)
    assert looked.containers[glance.key].footprint == cpus("2").mask


def test_what_may_be_anywhere_may_be_on_cpus_that_come_back() -> None:
    """Of one an order of an earlier run waits in the engine, behind a start that its runtime holds: anywhere. The other
    lost its last CPU, and the kernel runs it elsewhere.
    """
    machine = uniform(cores=8)
    glance = ContainerView(id="a" * 64, name="a", phase=Phase.CREATED, runtime="cpuset", is_glance=True)
    stranded = ContainerView(id="b" * 64, name="b", phase=Phase.RUNNING, cpuset="1", effective=cpus("1"))
    world = begin(State().remembering(glance.key, Originals()), without(machine, "4-7"), static())
    for number, view in enumerate((glance, stranded), 1):
        world = sighted(world, view, number)
    for online in ("1,4-7", "4-6", "4"):
        world = with_settings(on_machine(world, without(machine, online)), world.settings)
        for view in (glance, stranded):
            assert (cpus("0-7") - cpus(online)).mask & ~world.containers[view.key].footprint == 0, (view.name, online)


def test_a_replacement_is_not_taken_from_a_later_grant_while_there_is_any_other() -> None:
    story = Story()
    first, second = story.arrive("first", 2), story.arrive("second", 2)
    story.settle()
    story.hotplug(1)
    assert (where(first), where(second)) == ("2,5", "3-4")


def test_a_reservation_that_loses_its_cpu_is_made_again() -> None:
    """From ungranted CPUs; no exclusive container is moved."""
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.hotplug(0)
    assert story.world.state.reserved == cpus("3")
    assert (where(rt), where(plain)) == ("1-2", "3-7")


# Settings change.


def test_static_to_none_and_back_keeps_the_books() -> None:
    """No container is touched while the policy is none, and nothing is forgotten."""
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    given = len(story.applied())
    story.change_settings(policy=PolicyName.NONE)
    late = story.arrive("late", 1)
    story.take_inventory()
    story.settle()
    assert len(story.applied()) == given
    assert story.granted(rt) == "1-2"
    story.change_settings()
    story.settle()
    assert [where(each) for each in (rt, late, plain)] == ["1-2", "3", "0,4-7"]
    assert story.is_settled(rt)


def test_none_never_orders_anything() -> None:
    story = Story(policy=PolicyName.NONE)
    story.arrive("plain")
    story.arrive("rt", 2)
    story.arrive("stop", 100, labels={"cpuset.on-shortage": "stop"})
    story.settle()
    assert story.given == []
    assert story.world.state.assignments == {}


def test_a_reservation_that_grows_wins_over_grants() -> None:
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.change_settings(reserved_cpus=cpus("0-1"))
    story.settle()
    assert (where(rt), where(plain)) == ("2-3", "0-1,4-7")
    assert story.is_settled(rt)


def test_a_strict_reservation_is_left_by_the_pool() -> None:
    story = Story()
    plain = story.arrive("plain")
    story.change_settings(options=("strict-cpu-reservation",))
    story.settle()
    assert where(plain) == "1-7"
    story.change_settings()
    story.settle()
    assert where(plain) == "0-7"


def test_a_growing_shared_min_takes_back_the_latest_grant() -> None:
    story = Story()
    first, second = story.arrive("first", 3), story.arrive("second", 3)
    story.settle()
    story.change_settings(shared_min=4)
    story.settle()
    assert where(first) == "1-3"
    assert story.refusal(second).code is RefusalCode.CPUS_LOST
    reason = (
        "it held CPUs 4-6, and needs 3 exclusive CPUs; 5 CPUs are shared, and 4 must stay shared "
        "(1 reserved: 0; 3 held by first)"
    )
    assert story.why_refused(second) == reason
    assert where(second) == "0,4-7"


def test_a_pattern_of_the_unmanaged_lets_go() -> None:
    """At its next rest: until then the container runs in the pool, and its CPUs return there."""
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.change_settings(unmanaged=("rt",))
    story.settle()
    assert (story.granted(rt), where(rt), where(plain)) == (None, "0-7", "0-7")


@pytest.mark.parametrize(
    "settings",
    [
        static(),
        static(reserved_cpus=CPUSet(), reserved_count=3),
        static(options=("strict-cpu-reservation",)),
        static(shared_min=5),
        Settings(may=EVERY_RIGHT, policy=PolicyName.NONE),
    ],
)
def test_books_of_another_machine_are_fitted_to_this_one(settings: Settings) -> None:
    """And fitting them again changes nothing."""
    story = Story(uniform(cores=8, threads=2))
    for number in range(4):
        story.arrive(f"rt{number}", 3)
    small = uniform(cores=6)
    fitted, _ = refitted(story.world.state, small, settings)
    assert violations(fitted, small) == []
    assert refitted(fitted, small, settings)[0] == fitted


def test_empty_books_on_a_new_machine() -> None:
    world = begin(State(), uniform(cores=4), static())
    assert (world.state.shared, world.state.reserved, world.is_ready) == (cpus("0-3"), cpus("0"), False)
    assert world.notes == ()


def test_the_same_machine_read_again_is_the_same_world() -> None:
    story = Story()
    story.arrive("rt", 2)
    changed = without(story.machine, "7")
    story.feed(TopologyRead(changed))
    world = story.world
    story.feed(TopologyRead(changed))
    assert story.world is world


def test_a_cpuset_of_all_that_is_online_now_is_no_pin_for_the_refit() -> None:
    """It was one of some CPUs before others went offline. The owner of one of these gets another, and never asks
    again.
    """
    story = Story(uniform(cores=5), policy=PolicyName.STATIC, reserved_count=1)
    story.arrive("pinned", cpuset="2-3")
    owner = story.arrive("owner", 1)
    story.settle()
    before = story.world.state.assignments[owner.key]
    assert str(before.cpus) == "1"
    story.hotplug(0, 1, 4)
    story.settle()
    after = story.world.state.assignments[owner.key]
    assert (str(after.cpus), after.since) == ("3", before.since)
    assert [note.refusal for note in story.world.notes] == [None]
