"""Members of the shared pool's group with a cpuset of their own: they move with the group, without any event."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.decide.container.container import Container, Standing
from sidecar.decide.facts import ContainerSeen
from sidecar.decide.orders import LookAgain
from sidecar.decide.world import World, replace
from sidecar.projection.projection_of import projection_of
from state.cpuset import CPUSet
from tests.support.decide.glances import release
from tests.support.decide.real import Real
from tests.support.decide.stories import Story, cpus, fault_of


def pinned(*, asks: bool = False) -> tuple[Story, Real, Real]:
    """Return a member that is pinned to CPU 3, and runs on the group's CPUs, since the owner of all others came, which
    cannot step aside.
    """
    story = Story(shared_slice="pool.slice")
    member = story.create({}, cpuset="3", is_member=True)
    member.asks = asks
    story.start(member)
    rt = story.arrive("rt", 7)
    story.look(member)
    story.settle()
    assert str(member.effective) == "0"
    return story, member, rt


def looked_at(story: Story) -> list[Real]:
    """Return the containers that the last decision wants to look at."""
    return [story.containers[order.container] for order in story.last_orders if isinstance(order, LookAgain)]


def test_a_pinned_member_that_moves_with_its_group_is_told_where_it_is() -> None:
    """It is looked at once the group has moved, not only with the next inventory."""
    story, member, rt = pinned()
    story.take_inventory()
    story.remove(rt)
    story.begin_look(rt.key)
    story.settle()
    assert str(member.effective) == "3"
    assert story.world.sure_of(story.known(member)) == member.effective


def test_a_member_that_runs_on_the_groups_cpus_for_want_of_its_own_is_sure_of_none() -> None:
    story, member, _ = pinned()
    assert story.world.sure_of(story.known(member)) == CPUSet()


def test_a_member_that_was_only_glanced_at_is_sure_of_none() -> None:
    """Another program holds its lock as the sidecar starts: it may be pinned, and run on the group's CPUs."""
    story, member, rt = pinned()
    member.is_busy = True
    story.crash([True])
    assert story.known(member).view.is_glance
    assert story.world.sure_of(story.known(member)) == CPUSet()
    story.remove(rt)
    story.begin_look(rt.key)
    story.settle()
    assert str(member.effective) == "3"
    assert story.world.sure_of(story.known(member)) == CPUSet()
    release(story, member)
    story.look(member)
    assert story.world.sure_of(story.known(member)) == member.effective


def test_a_member_that_is_pinned_beside_its_group_is_where_both_are() -> None:
    """Under a strict reservation the group has no reserved CPU: an order onto one would never come true."""
    story = Story(shared_slice="pool.slice", options=("strict-cpu-reservation",), may=())
    member = story.create({}, cpuset="0,3", is_member=True)
    story.start(member)
    story.look(member)
    story.settle()
    assert (str(member.effective), member.limits.cpuset) == ("3", "3")
    assert story.known(member).order is None


def test_a_member_without_cpus_of_its_own_is_not_looked_at() -> None:
    """It is always where the group is."""
    story = Story(shared_slice="pool.slice")
    member = story.create({}, is_member=True)
    story.start(member)
    story.look(member)
    story.arrive("rt", 3)
    story.settle()
    assert str(member.effective) == "0,4-7"
    assert story.world.sure_of(story.known(member)) == member.effective
    assert [each for each in story.given if isinstance(each, LookAgain) and each.container == member.key] == []


@pytest.mark.parametrize("outcome", ["ok", "lost-after", "failed-after", "ineffective"])
def test_a_pinned_member_is_looked_at_whatever_became_of_the_order_to_its_group(outcome: str) -> None:
    story, member, rt = pinned()
    story.remove(rt)
    story.look(rt)
    assert story.group is not None
    story.deliver([order.container for order in story.flight].index(story.group.key), outcome)
    story.settle()
    assert story.known(member).place.seen == member.effective


def test_a_look_that_is_told_after_its_group_moved_is_not_the_last_one() -> None:
    """The look began before, and its container was not known when the group's order was answered."""
    story = Story(shared_slice="pool.slice")
    member = story.create({}, cpuset="3", is_member=True)
    story.start(member)
    story.begin_look(member.key)
    early = story.looks.pop()
    story.arrive("rt", 3)
    story.settle()
    story.looks.append(early)
    story.deliver_look(0)
    assert looked_at(story) == [member]
    story.settle()
    assert story.known(member).place.seen == member.effective


def test_a_pinned_member_whose_runtime_asks_is_told_no_cpu_that_goes_with_the_groups_next_order() -> None:
    """The order took effect, and is not answered: it runs on its own CPU again."""
    story, member = moving()
    assert (told := story.world.sure_of(story.known(member))) <= cpus("3"), told


def _where_it_was_seen(self: World, container: Container) -> CPUSet:
    return self.group.sure & container.sure if container.view.in_shared_group and self.group else container.sure


def _where_the_group_is(self: World, container: Container) -> CPUSet:
    return self.group.sure if container.view.in_shared_group and self.group else container.sure


@pytest.mark.parametrize("planted", [_where_it_was_seen, _where_the_group_is])
def test_a_rule_that_tells_it_more_is_caught(
    planted: Callable[[World, Container], CPUSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, member = moving()
    monkeypatch.setattr(World, "sure_of", planted)
    assert not story.world.sure_of(story.known(member)) <= cpus("3")


def moving() -> tuple[Story, Real]:
    """Return a pinned member, at the moment when the order that gives the group all CPUs has taken effect."""
    story, member, rt = pinned(asks=True)
    story.remove(rt)
    story.look(rt)
    assert story.group is not None
    story.land([order.container for order in story.flight].index(story.group.key))
    assert str(member.effective) == "3"
    return story, member


def test_a_member_of_an_engine_that_forgets_is_looked_at_as_well() -> None:
    """Its known configuration is where it was last seen: the group's new CPUs count as its own only after a look."""
    story = Story(shared_slice="pool.slice")
    member = story.create({}, is_member=True)
    story.start(member)
    story.feed(ContainerSeen(replace(member.view(), forgets_updates=True), story.ticket()))
    story.arrive("rt", 3)
    story.settle()
    assert [each for each in story.given if isinstance(each, LookAgain) and each.container == member.key]


def test_a_member_that_was_moved_back_is_a_member_again_at_once() -> None:
    """Another tool pinned it. The answer to the order shows what it is, as a look would."""
    story = Story(shared_slice="pool.slice")
    member = story.arrive("member", is_member=True)
    story.tamper(member, cpus("3"))
    story.look(member)
    assert story.known(member).wish.standing is Standing.MANAGED
    story.deliver(0, "ok")
    assert story.known(member).wish.standing is Standing.MEMBER


def test_a_member_that_could_not_be_moved_back_is_told_where_it_is() -> None:
    """Another tool pinned it, and what is between it and the group lacks CPUs. It is looked at when the group moves."""
    story = Story(shared_slice="pool.slice")
    member = story.arrive("member", is_member=True)
    story.tamper(member, cpus("3,5"))
    story.look(member)
    story.deliver(0, "ineffective")
    assert story.known(member).wish.standing is Standing.MEMBER
    assert story.world.sure_of(story.known(member)) == member.effective == cpus("3,5")
    assert not projection_of(story.world, story.known(member)).settled
    story.crash([True])
    assert story.world.sure_of(story.known(member)) == member.effective == cpus("3,5")
    assert (fault_of(story, member), story.known(member).is_held_back) == ("it ineffective", True)
    assert not projection_of(story.world, story.known(member)).settled
    story.relent(member)
    rt = story.arrive("rt", 3)
    story.settle()
    assert story.world.sure_of(story.known(member)) == member.effective == cpus("0,4-7")
    story.away(rt)
    story.settle()
    assert story.world.sure_of(story.known(member)) == member.effective == cpus("0-7")


def test_a_member_that_a_look_shows_held_back_is_told_what_it_has() -> None:
    """A group between it and the shared group lacks CPUs, and no order failed: one was obeyed before its start."""
    story = Story(shared_slice="pool.slice")
    member = story.arrive("member", is_member=True)
    story.kernel.write(member.id, cpus("3,5"))
    story.shrink_above(member)
    story.kernel.write(member.id, CPUSet())
    story.look(member)
    assert story.world.sure_of(story.known(member)) == member.effective == cpus("3,5")
    assert not projection_of(story.world, story.known(member)).settled
    rt = story.arrive("rt", 3)
    story.settle()
    assert story.world.sure_of(story.known(member)) == member.effective == cpus("5")
    story.away(rt)
    story.settle()
    assert story.world.sure_of(story.known(member)) == member.effective == cpus("3,5")
    story.relent(member)
    story.look(member)
    assert story.world.sure_of(story.known(member)) == member.effective == cpus("0-7")
    assert story.world.state.held_back == {}
    assert projection_of(story.world, story.known(member)).settled


def test_a_member_is_held_back_for_one_run() -> None:
    """Where its next run is, a look shows. A sidecar that is restarted meanwhile knows as much."""
    story = Story(shared_slice="pool.slice")
    member = story.arrive("member", is_member=True)
    story.kernel.write(member.id, cpus("3,5"))
    story.shrink_above(member)
    story.look(member)
    assert story.known(member).is_held_back
    story.end(member)
    assert not story.known(member).is_held_back
    story.again(member)
    assert story.known(member).is_held_back
