"""Release: original cpusets and limits are restored, and nothing is remembered after that."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import ContainerView, CpusetFailed, Failure, Phase, ReleaseRequested, RetryDue
from sidecar.decide.moves.release import original_cpus
from state.topology import uniform
from tests.decide.moves.test_starts import strict
from tests.support.decide import strictstarts
from tests.support.decide.hand_stories import owner_alone
from tests.support.decide.stories import GIGA, Story, cpus, where


def test_everything_is_given_back() -> None:
    """Original cpusets where there were any, all CPUs where there were none, and the lifted limits."""
    story = Story()
    plain = story.arrive("plain")
    rt = story.arrive("rt", 2, nano_cpus=2 * GIGA)
    story.settle()
    story.release()
    story.settle()
    assert (where(plain), where(rt), rt.nano_cpus) == ("0-7", "0-7", 2 * GIGA)
    assert story.world.state.originals == {}
    assert story.world.state.assignments == {}


def test_a_cpuset_that_it_was_created_with_is_restored() -> None:
    story = Story()
    rt = story.unseen("rt", 2, cpuset="0,7")
    story.take_inventory()
    story.settle()
    assert where(rt) == "1-2"
    story.release()
    story.settle()
    assert where(rt) == "0,7"


@pytest.mark.parametrize(
    ("had", "pod", "gets"),
    [("", "", "0-7"), ("0,7", "", "0,7"), ("", "1-2", "1-2"), ("2-3", "1-2", "2"), ("", "9", "0-7"), ("9", "", "0-7")],
)
def test_none_gets_more_than_its_pod_has(had: str, pod: str, gets: str) -> None:
    """The pod's own group may be wider by now. CPUs that are offline count for nothing."""
    view = ContainerView(id="a", name="a", phase=Phase.RUNNING, pod_cpuset=pod)
    assert str(original_cpus(view, had, cpus("0-7"))) == gets


def test_a_container_that_is_back_already_is_forgotten_too() -> None:
    """The pool is the whole machine again, so there is no order left for it, and nothing to wait for."""
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.away(rt)
    story.settle()
    assert where(plain) == "0-7"
    assert plain.key in story.world.state.originals
    story.release()
    story.settle()
    assert story.world.state.originals == {}


def test_a_container_that_is_being_removed_is_not_waited_for() -> None:
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.stop(plain)
    plain.phase = Phase.REMOVING
    story.look(plain)
    story.release()
    story.settle()
    assert (story.world.state.originals, where(rt)) == ({}, "0-7")


def test_a_container_that_was_never_changed_is_not_touched() -> None:
    story = Story()
    stranger, alone = story.arrive("stranger", cpuset="5"), story.arrive("alone", labels={"cpuset.manage": "off"})
    story.arrive("rt", 2)
    story.settle()
    story.release()
    story.settle()
    assert story.updates(stranger) == story.updates(alone) == []


def test_a_stopped_container_is_given_back_too() -> None:
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.end(rt)
    story.release()
    story.settle()
    assert where(rt) == "stopped 0-7"


def test_arrivals_are_left_alone_while_everything_is_given_back() -> None:
    story = Story()
    story.arrive("rt", 2)
    story.settle()
    story.release()
    late = story.arrive("late", 2)
    story.settle()
    assert (story.granted(late), story.updates(late)) == (None, [])


def test_a_failure_is_remembered_and_tried_again() -> None:
    story = Story()
    rt = story.arrive("rt", 2)
    story.settle()
    story.release()
    order = story.flight.pop()
    story.feed(CpusetFailed(rt.key, order.number, Failure.FAILED, "500", story.ticket()))
    story.settle()
    assert rt.key in story.world.state.originals
    story.retries.append(RetryDue(rt.key, order.number))
    story.retry(0)
    story.settle()
    assert where(rt) == "0-7"
    assert story.world.state.originals == {}


def test_a_release_under_the_policy_none_restores_what_static_changed() -> None:
    story = Story()
    plain, rt = story.arrive("plain"), story.arrive("rt", 2)
    story.settle()
    story.settings = type(story.settings)()
    story.crash([True])
    assert story.world.state.originals.keys() == {plain.key, rt.key}
    story.release()
    story.settle()
    assert (where(plain), where(rt)) == ("0-7", "0-7")
    assert story.world.state.originals == {}


def test_an_order_that_was_given_before_restores_nothing() -> None:
    """It is answered after the release was requested: the originals of its container must still be restored."""
    story = Story()
    rt = story.unseen("rt", 2)
    story.take_inventory()
    assert story.pending(rt) == "1-2"
    story.release()
    story.settle()
    assert (where(rt), story.world.state.originals) == ("0-7", {})


def test_a_release_waits_for_a_look_at_what_was_only_glanced_at() -> None:
    """A sidecar that began during a start has not seen the container's configuration: it may still differ from the
    originals, and its limits may still be lifted.
    """
    story = Story()
    real = strict(story, exclusive=2, quota=200_000)
    story.look(real)
    strictstarts.hold(story, real)
    story.crash([True])
    assert story.known(real).view.is_glance
    story.release()
    assert real.key in story.world.state.originals


def test_an_order_from_before_the_release_brings_no_limits_back() -> None:
    """It leaves the container where it would be anyway, on the only CPU; its limit is lifted, and not yet restored."""
    story = Story(uniform(cores=2))
    rt = story.arrive("rt", 1, quota=100_000, starts=False)
    (order,) = story.flight
    assert (str(order.update.cpus), order.update.cpu_quota) == ("1", -1)
    story.toggle_cpu(0)
    story.read_topology()
    story.release()
    story.deliver(0, "ok")
    assert rt.key in story.world.state.originals
    story.settle()
    assert rt.cpu_quota == 100_000
    assert rt.key not in story.world.state.originals


def test_nobody_is_sure_of_what_the_hand_gives_back() -> None:
    """It gives back what other programs wrote last, which it alone knows: until a look, no file names any CPU."""
    host, owner = owner_alone()
    known = host.world.containers[owner.key]
    assert host.world.sure_of(known) == owner.effective
    host.feed(ReleaseRequested())
    while host.act() or host.hear():
        known = host.world.containers[owner.key]
        assert not host.world.sure_of(known)
    assert known.pulled
