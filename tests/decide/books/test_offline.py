"""A request that only offline CPUs prevent: it is told so, and reconsidered when they are back."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.decide.books.queue import turn_of
from sidecar.decide.container.askers import is_hopeful
from sidecar.decide.settings import IsolatedRule, PolicyName
from sidecar.words.explanations import explanation
from state.cpuset import CPUSet
from state.topology import uniform
from tests.support.decide.real import Real
from tests.support.decide.stories import Story

CORES = {"cpuset.options": "full-pcpus-only"}
SINGLE = {"cpuset.numa": "single"}


def hopeful(story: Story, real: Real) -> bool:
    return is_hopeful(story.world.state.refusals[real.key])


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
@pytest.mark.parametrize("shortage", ["share", "wait"])
def test_what_only_offline_cpus_prevent_is_granted_when_they_are_back(policy: PolicyName, shortage: str) -> None:
    """Whatever it chose for a shortage: no container holds these CPUs."""
    story = Story(policy=policy)
    story.hotplug(6, 7)
    rt = story.arrive("rt", 6, labels={"cpuset.on-shortage": shortage})
    story.settle()
    said = "asked for 6 exclusive CPUs, but this machine can give 5 at most while CPUs 6-7 are offline (1 reserved: 0)"
    assert story.why_refused(rt) == said
    assert hopeful(story, rt)
    assert turn_of(story.world, rt.key) == 1
    told = explanation(story.world, story.known(rt), None, story.world.state.refusals[rt.key], None)
    assert "It runs in the shared pool until they are available." in told
    story.hotplug(6)
    assert story.granted(rt) == "1-6"
    assert story.is_settled(rt)


def test_what_is_more_than_all_cpus_is_refused_for_good() -> None:
    """Offline or not."""
    story = Story()
    story.hotplug(7)
    rt = story.arrive("rt", 8, labels={"cpuset.on-shortage": "wait"})
    assert "can give 6 at most while CPU 7 is offline, and too few with it (1 reserved: 0)" in story.why_refused(rt)
    assert not hopeful(story, rt)


def test_what_the_pool_keeps_is_counted_with_all_cpus() -> None:
    story = Story(shared_min=3)
    story.hotplug(7)
    five, six = story.arrive("five", 5), story.arrive("six", 6)
    assert "4 at most while CPU 7 is offline: 3 must stay shared" in story.why_refused(five)
    assert not hopeful(story, six)


def test_reserved_cpus_that_come_back_are_reserved() -> None:
    """They free the ones that stand in for them, and nothing else."""
    story = Story(reserved_cpus=CPUSet.parse("0-1"))
    story.hotplug(1)
    six, seven = story.arrive("six", 6), story.arrive("seven", 7)
    assert story.granted(six) == "2-7"
    assert not hopeful(story, seven)


def test_the_offline_thread_makes_one_core_whole() -> None:
    """And no more than one."""
    story = Story(uniform(cores=4, threads=2))
    story.hotplug(7)
    six, eight = story.arrive("six", 6, labels=CORES), story.arrive("eight", 8, labels=CORES)
    assert hopeful(story, six)
    assert not hopeful(story, eight)
    story.hotplug(7)
    assert story.granted(six) == "1-3,5-7"


def test_a_thread_that_comes_back_brings_its_sibling_along() -> None:
    """Also where so many are offline that single threads count as cores."""
    story = Story(uniform(cores=6, threads=2), reserved_cpus=CPUSet.parse("2,8"))
    story.hotplug(0, 2, 11)
    ten, twelve = story.arrive("ten", 10, labels=CORES), story.arrive("twelve", 12, labels=CORES)
    assert hopeful(story, ten)
    assert not hopeful(story, twelve)
    story.hotplug(0, 2, 11)
    assert story.granted(ten) == "0-1,3-7,9-11"


def test_a_number_that_is_no_multiple_is_refused_for_good() -> None:
    story = Story(uniform(cores=4, threads=2))
    story.hotplug(7)
    rt = story.arrive("rt", 3, labels=CORES)
    assert not hopeful(story, rt)


def test_an_offline_cpu_may_be_on_any_node() -> None:
    """Where it is, is not known while it is offline."""
    story = Story(uniform(nodes=2, cores=4))
    story.hotplug(7)
    four, six = story.arrive("four", 4, labels=SINGLE), story.arrive("six", 6, labels=SINGLE)
    assert "3 at most while CPU 7 is offline" in story.why_refused(four)
    assert not hopeful(story, six)
    story.hotplug(7)
    assert story.granted(four) == "4-7"


def test_an_offline_cpu_may_be_isolated() -> None:
    machine = msgspec.structs.replace(uniform(cores=8), isolated=CPUSet.parse("5-7"))
    story = Story(machine, isolated=IsolatedRule.ONLY)
    story.hotplug(7)
    rt, more = story.arrive("rt", 3), story.arrive("more", 4)
    assert hopeful(story, rt)
    assert not hopeful(story, more)
    story.hotplug(7)
    assert story.granted(rt) == "5-7"


def test_a_lost_grant_is_told_what_is_offline() -> None:
    story = Story(uniform(cores=4))
    rt = story.arrive("rt", 3)
    story.settle()
    story.hotplug(3)
    said = "it held CPUs 1-3, and needs 3 exclusive CPUs, but this machine can give 2 at most while CPU 3 is offline"
    assert story.why_refused(rt).startswith(said)
    story.hotplug(3)
    assert story.granted(rt) == "1-3"


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_no_half_core_is_granted_while_each_core_lacks_a_thread(policy: PolicyName) -> None:
    """A core has two threads, though no core shows both: one CPU is no number of cores, and two are granted later."""
    story = Story(machine=uniform(cores=3, threads=2, adjacent=True), policy=policy, reserved_cpus=CPUSet.of(0, 1))
    story.hotplug(1, 3, 5)
    half, whole = story.arrive("half", 1, labels=CORES), story.arrive("whole", 2, labels=CORES)
    story.settle()
    assert "not a multiple of the 2 threads per core" in story.why_refused(half)
    assert "while CPUs 1,3,5 are offline" in story.why_refused(whole)
    story.crash([])
    story.take_inventory()
    story.settle()
    assert "not a multiple of the 2 threads per core" in story.why_refused(half)
    story.hotplug(1, 3, 5)
    assert story.granted(whole) == "2-3"
    assert story.granted(half) is None


def test_what_went_offline_while_the_sidecar_was_down_is_known_from_the_books() -> None:
    story = Story(machine=uniform(cores=3, threads=2, adjacent=True), reserved_cpus=CPUSet.of(0, 1))
    story.arrive("whole", 2, labels=CORES)
    story.settle()
    for cpu in (1, 3, 5):
        story.toggle_cpu(cpu)
    story.crash([])
    assert story.world.topology.full_cores == ()
    assert story.world.topology.widest == 2
