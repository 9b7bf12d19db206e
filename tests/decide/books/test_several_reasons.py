"""A grant that loses CPUs for several reasons in one decision tells each CPU's own."""

from __future__ import annotations

import pytest

from sidecar.decide.books.size_causes import Events, losses
from sidecar.decide.facts import SettingsChanged, TopologyRead
from sidecar.decide.placement.options import STRICT_CPU_RESERVATION
from sidecar.decide.settings import PolicyName
from sidecar.decide.world import replace
from sidecar.words.causes import why_leaving
from state.cause import BecameReserved, ByItsRules, CeilingSank, FewerToShare, Pinned, Resized, SharedAnew, WentOffline
from state.codec import to_builtins
from state.leaving import Leaving
from state.model import Move
from state.topology import uniform
from tests.support.decide.dynamic import Dynamic
from tests.support.decide.real import Real
from tests.support.decide.stories import cpus, static

WHOLE_CORES = "full-pcpus-only"


def reasons(story: Dynamic, real: Real) -> dict[str, object]:
    """Return what it lost, and why."""
    return {str(move.lost): move.cause for move in story.grant(real).moves if move.lost}


@pytest.mark.parametrize("policy", [PolicyName.STATIC, PolicyName.DYNAMIC])
def test_what_went_offline_and_what_became_reserved_are_told_apart(policy: PolicyName) -> None:
    """In one burst."""
    story = Dynamic(policy=policy)
    rt = story.arrive("rt", 3)
    story.settle()
    story.settings = static(policy=policy, reserved_cpus=cpus("0-1"))
    story.toggle_cpu(3)
    story.feed(SettingsChanged(to_builtins(story.settings)), TopologyRead(story.topology()))
    assert reasons(story, rt) == {"1": BecameReserved(cpus("1")), "3": WentOffline(cpus("3"))}
    assert len(story.grant(rt).cpus) == 3


def test_the_rest_of_a_core_goes_for_the_rules_of_the_grant() -> None:
    """And the CPU that is pinned for the pin."""
    story = Dynamic(uniform(cores=4, threads=2), reserved_cpus=cpus("0,4"))
    batch = story.elastic("batch", 2, 2, 6, options=WHOLE_CORES)
    story.arrive("pinned", cpuset="7")
    assert reasons(story, batch) == {"3": ByItsRules(), "7": Pinned(cpus("7"))}
    said = why_leaving(story.grant(batch))
    assert said == (
        "CPU 3: it lies on whole cores and NUMA nodes again as its rules require; "
        "CPU 7: a container that is pinned by hand keeps CPU 7"
    )
    leaving = story.grant(batch).leaving
    assert leaving is not None
    assert [each.cpus for each in leaving.batches] == [cpus("3,7")]


def test_what_is_above_a_ceiling_goes_for_that_and_the_rest_for_others() -> None:
    story = Dynamic()
    web = story.elastic("web", 2, most=6)
    grant = story.grant(web)
    lower = replace(grant, demand=replace(grant.demand, max_cpus=5))
    sank, shared = losses(story.world, lower, cpus("4-6"), Events(arrived=("late",)))
    assert sank == (cpus("6"), CeilingSank(5))
    assert shared[0] == cpus("4-5")
    assert isinstance(shared[1], SharedAnew)
    assert shared[1].count == 2
    assert losses(story.world, lower, cpus("6"), Events()) == ((cpus("6"), CeilingSank(5)),)


def test_cpus_that_are_leaving_have_the_reason_for_which_they_were_lost() -> None:
    """Not that of the last take; one reason for all is told once."""
    story = Dynamic()
    grant = story.grant(story.elastic("web", 2, most=6))
    fewer = FewerToShare(name="web", count=1, floor=2)
    moves = (Move(lost=cpus("5"), cause=Pinned(cpus("5"))), Move(lost=cpus("6"), cause=fewer))
    both = replace(grant, moves=moves, leaving=Leaving(cpus=cpus("5-6"), number=2, cause=fewer))
    assert why_leaving(both) == (
        "CPU 5: a container that is pinned by hand keeps CPU 5; "
        "CPU 6: the machine or a setting leaves fewer CPUs to share, which takes 1 CPU above web's floor of 2"
    )
    assert why_leaving(replace(both, leaving=Leaving(cpus=cpus("5"), number=2, cause=fewer))) == (
        "a container that is pinned by hand keeps CPU 5"
    )
    assert why_leaving(replace(both, leaving=None)) == ""


def test_what_leaves_for_a_core_of_the_pool_is_told_of_that_though_another_cpu_comes() -> None:
    """The ordered size stays, and each change has its own reason."""
    story = Dynamic(uniform(cores=4, threads=2), reserved_cpus=cpus("0,4"))
    manual = story.elastic("manual", 2, 1, 10, scale="manual", options="distribute-cpus-across-cores")
    story.resized(manual, 5)
    assert story.layout(manual) == ["1-3,5-6"]
    story.change_settings(policy=PolicyName.DYNAMIC, options=(WHOLE_CORES, STRICT_CPU_RESERVATION))
    assert story.grant(manual).moves[-2:] == (
        Move(lost=cpus("3"), cause=FewerToShare(name="manual", count=1, floor=1)),
        Move(gained=cpus("4"), cause=Resized(5)),
    )
