"""The work of one decision on machines with many owners, counted: bounds that no busy host changes."""

from __future__ import annotations

from sidecar.decide.facts import DefragmentRequested
from sidecar.decide.settings import PolicyName
from state.topology import uniform
from tests.bench.many_owners import BusyWorld, Facts, counted, owner

MACHINE = uniform(packages=2, cores=16, threads=2)
COMMAND = [DefragmentRequested()]


def work(policy: PolicyName, owners: int, facts: Facts) -> float:
    """Return how many functions are called in a decision on these facts, after this many owners asked and started."""
    host = BusyWorld(MACHINE, policy)
    views = [owner(number) for number in range(owners)]
    host.play([[host.inventory(())], [host.seen(view) for view in views]])
    host.play([[host.started(view.key) for view in views]])
    return counted(host.world, facts)[2]


def test_a_defragmentation_looks_at_each_grant_and_not_at_the_machine_for_each() -> None:
    """Each grant is compared with its own candidates: no candidate counts the cores of all grants."""
    assert work(PolicyName.DYNAMIC, 25, COMMAND) <= 25 * 2500


def test_waiting_containers_that_want_the_same_are_tried_once() -> None:
    """Thirty-five more containers of eight sizes wait, and they cost no thirty-five trials more."""
    assert work(PolicyName.STATIC, 70, COMMAND) <= 2 * work(PolicyName.STATIC, 35, COMMAND)
