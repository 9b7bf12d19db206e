"""Memory nodes that follow exclusive CPUs, and are restored; isolated CPUs and the shared pool."""

from __future__ import annotations

import pytest

from sidecar.decide.facts import CpusetFailed, Failure, RetryDue, SettingsChanged
from sidecar.decide.settings import IsolatedRule, OptIn
from sidecar.decide.world import replace
from sidecar.simulation.model_limits import Limits, changed
from sidecar.words.explanations import explanation
from sidecar.words.mistaken import sentence
from state.codec import to_builtins
from state.cpuset import CPUSet
from state.topology import Topology, uniform
from tests.support.decide.stories import GIGA, Story, cpus, static

TWO_NODES = replace(uniform(packages=2, cores=4), memory=(0, 1))
"""Node 0 (0-3), node 1 (4-7)."""

FOLLOW = {"cpuset.mems": "follow"}


def story(machine: Topology = TWO_NODES, **settings: object) -> Story:
    return Story(machine, **settings)


def test_memory_follows_with_the_very_update_that_brings_the_cpus() -> None:
    """One call of the engine, before the start."""
    host = story()
    rt = host.arrive("rt", 4, starts=False, labels=FOLLOW)
    assert [(str(update.cpus), update.mems) for update in host.updates(rt)] == [("4-7", "1")]
    host.settle()
    assert rt.mems == "1"


def test_memory_is_left_alone_unless_that_is_asked() -> None:
    host = story()
    rt = host.arrive("rt", 4)
    host.settle()
    assert rt.mems == ""
    assert [update.mems for update in host.updates(rt)] == [None]


@pytest.mark.parametrize(("before", "after"), [("", "0-1"), ("0", "0")])
def test_memory_comes_back_when_the_container_leaves_its_cpus(before: str, after: str) -> None:
    """An engine cannot clear them: all nodes mean none."""
    host = story()
    rt = host.arrive("rt", 4, labels=FOLLOW, mems=before)
    host.settle()
    assert rt.mems == "1"
    host.release()
    host.settle()
    assert rt.mems == after


def test_memory_comes_back_from_one_that_asks_for_no_cpus_any_more() -> None:
    """Limits asked for CPUs, and under other settings they do not: its label still says that its memory followed."""
    host = story(opt_in=OptIn.GUARANTEED)
    rt = host.unseen("rt", starts=False, labels=FOLLOW, nano_cpus=4 * GIGA)
    host.store(rt, Limits(memory=1))
    host.start(rt)
    host.look(rt)
    host.settle()
    assert (host.granted(rt), rt.mems) == ("4-7", "1")
    host.change_settings(opt_in=OptIn.LABEL)
    host.settle()
    assert (host.granted(rt), rt.mems) == (None, "0-1")


def test_cpus_do_not_fail_for_memory_that_the_engine_refuses() -> None:
    """The refused order is repeated without memory nodes, and they are not requested again."""
    host = story()
    host.mems = cpus("0")
    rt = host.arrive("rt", 4, labels=FOLLOW)
    host.settle()
    assert [(str(update.cpus), update.mems) for update in host.updates(rt)] == [("4-7", "1"), ("4-7", None)]
    assert host.is_settled(rt)
    # New settings are a reason to try again, once.
    host.mems = cpus("0-1")
    host.change_settings(linger_seconds=5.0)
    host.settle()
    assert rt.mems == "1"


def test_a_lost_answer_tells_nothing_of_memory() -> None:
    """The order is repeated with its memory nodes."""
    host = story()
    rt = host.unseen("rt", 4, labels=FOLLOW)
    host.look(rt)
    host.deliver(0, "lost-before")
    assert not host.known(rt).keeps_mems
    host.retry(0)
    host.settle()
    assert (rt.cpuset, rt.mems) == ("4-7", "1")


@pytest.mark.parametrize(("before", "after"), [("", "0-1"), ("0", "0")])
def test_memory_that_a_lost_order_changed_comes_back(before: str, after: str) -> None:
    """The order took effect, and no look has shown it: memory nodes are written again, as limits are."""
    host = story()
    rt = host.unseen("rt", 4, labels=FOLLOW, mems=before)
    host.look(rt)
    host.deliver(0, "lost-after")
    host.release()
    host.retry(0)
    host.settle()
    assert rt.mems == after


@pytest.mark.parametrize("how", ["lost-before", "lost-after"])
def test_memory_that_no_lost_order_could_change_is_left_alone(how: str) -> None:
    """An engine cannot clear memory nodes: what has none set keeps none."""
    host = story()
    host.arrive("rt", 4, labels=FOLLOW)
    host.settle()
    shares = host.unseen("shares", 4, labels=FOLLOW)
    host.look(shares)
    assert host.granted(shares) is None
    host.deliver(0, how)
    host.retry(0)
    host.settle()
    assert (shares.cpuset, shares.mems) == (str(host.world.state.shared), "")


def test_memory_that_stays_is_told() -> None:
    host = story()
    host.mems = cpus("0")
    rt = host.arrive("rt", 4, labels=FOLLOW)
    host.settle()
    grant = host.world.state.assignments[rt.key]
    said = explanation(host.world, host.known(rt), grant, None, grant.cpus)
    assert "Its memory nodes stay as they are: an order that changed them failed." in said


def test_an_order_without_effect_is_tried_again_without_memory() -> None:
    """Like a failed one: whatever was wrong, memory nodes must not make the CPUs fail again."""
    host = story()
    rt = host.unseen("rt", 4, labels=FOLLOW)
    host.look(rt)
    order = host.flight.pop()
    host.store(rt, changed(order.update))
    host.feed(CpusetFailed(rt.key, order.number, Failure.INEFFECTIVE, "confined", host.ticket(), cpus("0-7")))
    host.feed(RetryDue(rt.key, order.number))
    host.settle()
    assert [(str(update.cpus), update.mems) for update in host.updates(rt)] == [("4-7", "1"), ("4-7", None)]


ISOLATED = replace(uniform(cores=8), isolated=cpus("5-7"))


@pytest.mark.parametrize(
    ("rule", "grant", "pool"), [("ignore", "1-2", "0,3-7"), ("prefer", "5-6", "0-4"), ("only", "5-6", "0-4")]
)
def test_isolated_cpus_are_granted_and_never_shared(rule: str, grant: str, pool: str) -> None:
    """Except under `ignore`: then they are CPUs like any other."""
    host = story(ISOLATED, isolated=IsolatedRule(rule))
    plain, rt = host.arrive("plain"), host.arrive("rt", 2)
    host.settle()
    assert host.granted(rt) == grant
    assert plain.effective == cpus(pool)
    assert host.is_settled(rt)


def test_isolated_cpus_count_for_the_shared_pool_only_under_ignore() -> None:
    """All of the isolated CPUs may be granted: the pool loses nothing."""
    host = story(ISOLATED, isolated=IsolatedRule.PREFER, shared_min=5)
    assert host.granted(host.arrive("rt", 3)) == "5-7"
    assert host.granted(host.arrive("more", 1)) is None


def test_changed_options_leave_what_is_held() -> None:
    """No container is moved, and no file has to be deleted: the rules apply to new grants."""
    host = story(ISOLATED)
    rt = host.arrive("rt", 2)
    host.settle()
    changed = static(isolated=IsolatedRule.ONLY, options=("distribute-cpus-across-cores",))
    host.settings = changed
    host.feed(SettingsChanged(to_builtins(changed)))
    host.settle()
    assert host.granted(rt) == "1-2"
    assert host.granted(host.arrive("late", 2)) == "5-6"
    assert CPUSet.parse("5-7").isdisjoint(host.world.state.shared)


def test_an_unknown_device_is_a_warning_with_the_nearest_name() -> None:
    host = story(replace(TWO_NODES, devices={"eth0": cpus("4-7")}))
    rt = host.arrive("rt", 1, labels={"cpuset.near": "eht0"})
    assert host.granted(rt) == "1"
    [warning] = host.known(rt).wish.warnings
    assert sentence(warning) == "cpuset.near is 'eht0', and this machine has no such device; did you mean 'eth0'?"
    assert host.granted(host.arrive("near", 1, labels={"cpuset.near": "eth0"})) == "4"


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"cpuset.numa": "besteffort"}, "cpuset.numa is 'besteffort'; did you mean 'best-effort'?"),
        ({"cpuset.options": "full-pcpu"}, "cpuset.options has 'full-pcpu'; did you mean 'full-pcpus-only'?"),
        (
            {"cpuset.options": "performance,efficient"},
            "cpuset.options: performance and efficient cannot be used together: choose one",
        ),
        ({"cpuset.mems": "yes"}, "cpuset.mems is 'yes': write one of keep, follow"),
    ],
)
def test_a_bad_value_is_a_reason_and_the_nearest_right_word(labels: dict[str, str], reason: str) -> None:
    host = story()
    assert host.why_refused(host.arrive("rt", 2, labels=labels)) == reason
