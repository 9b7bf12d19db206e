"""The work of one decision on machines with many owners, counted: bounds that no busy host changes."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from inspect import unwrap
from types import FrameType

from sidecar.decide.books.grants import place
from sidecar.decide.books.holdings import lying_on
from sidecar.decide.books.sizes import least_of
from sidecar.decide.facts import DefragmentRequested, TopologyRead
from sidecar.decide.placement.choose import choose
from sidecar.decide.settings import PolicyName
from sidecar.decide.step import step
from sidecar.decide.world import World, replace
from state.topology import uniform, with_online
from tests.bench.many_owners import Facts, owned, owners, sharer

MACHINE = uniform(packages=2, cores=16, threads=2)
COMMAND = [DefragmentRequested()]


def counted(world: World, facts: Facts, function: Callable[..., object] | None = None) -> int:
    """Return how often a function is called in a decision; without one, how often any is called or left, C's too."""
    code = getattr(unwrap(function), "__code__", None) if function else None
    fresh, heard = replace(world, state=replace(world.state)), itertools.count()

    def hear(frame: FrameType, event: str, _: object) -> None:
        if code is None or (event == "call" and frame.f_code is code):
            next(heard)

    sys.setprofile(hear)
    try:
        step(fresh, facts)
    finally:
        sys.setprofile(None)
    return next(heard)


def test_a_defragmentation_looks_at_each_grant_and_not_at_the_machine_for_each() -> None:
    """Each grant is compared with its own candidates: no candidate counts the cores of all grants."""
    host = owned(MACHINE, PolicyName.DYNAMIC, 25)
    assert counted(host.world, COMMAND) <= 25 * 2500


def test_waiting_containers_that_want_the_same_are_tried_once() -> None:
    """Thirty-five more containers of eight sizes wait, and they cost no thirty-five trials more."""
    few, many = (owned(MACHINE, PolicyName.STATIC, count) for count in (35, 70))
    assert counted(many.world, COMMAND) <= 2 * counted(few.world, COMMAND)


def test_a_queue_rests_while_the_books_are_the_same() -> None:
    """Sixty owners do not all fit. A look at another container tries no CPUs for those that wait."""
    for policy in (PolicyName.STATIC, PolicyName.DYNAMIC):
        host = owned(MACHINE, policy, 60, shared=1)
        assert host.world.queue
        assert counted(host.world, host.look(sharer(MACHINE, 0)), choose) == 0


def test_a_burst_of_arrivals_measures_a_grant_once_as_long_as_it_stays_the_same() -> None:
    """Sixteen containers arrive beside twenty-five owners, and do not measure each of these sixteen times."""
    host = owned(MACHINE, PolicyName.DYNAMIC, 25)
    assert counted(host.world, host.come(owners(16, 1, first=25)), least_of) <= 3 * (25 + 16)


def test_no_trial_names_the_holders_of_cpus() -> None:
    """A refusal that stands names the holders of CPUs; an arrival that is served sorts no names."""
    host = owned(MACHINE, PolicyName.DYNAMIC, 25)
    assert counted(host.world, host.come(owners(1, 1, first=25)), place) == 0


def test_half_a_machine_goes_offline_and_each_grant_is_fitted_a_few_times() -> None:
    """Each of thirty grants is fitted anew when it loses CPUs, and not for each other one that lost some."""
    host = owned(MACHINE, PolicyName.DYNAMIC, 30)
    offline = with_online(MACHINE, MACHINE.online - MACHINE.nodes[-1].cpus)
    assert counted(host.world, [TopologyRead(offline)], lying_on) <= 4 * 30
