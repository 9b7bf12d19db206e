"""The work of one decision on machines with many owners, counted: a bound that no busy host changes."""

from __future__ import annotations

from sidecar.decide.facts import DefragmentRequested
from sidecar.decide.settings import PolicyName
from tests.bench.many_owners import MACHINES, BusyWorld, counted, owner


def crowded(cpus: int, policy: PolicyName, owners: int) -> BusyWorld:
    """Return a host on which this many owners asked and started."""
    host = BusyWorld(MACHINES[cpus], policy)
    views = [owner(number) for number in range(owners)]
    host.play([[host.inventory(())], [host.seen(view) for view in views]])
    host.play([[host.started(view.key) for view in views]])
    return host


def test_a_defragmentation_looks_at_each_grant_and_not_at_the_machine_for_each() -> None:
    """Better CPUs for sixty grants: the work grows with the grants, and with the cores of each of them alone."""
    host = crowded(256, PolicyName.DYNAMIC, 60)
    _, _, work = counted(host.world, [DefragmentRequested()])
    assert work <= 60 * 5000


def test_waiting_containers_that_want_the_same_are_tried_once() -> None:
    """A hundred containers wait for the same CPUs, and a decision costs hardly more than beside twenty."""
    few, many = (
        counted(crowded(256, PolicyName.STATIC, owners).world, [DefragmentRequested()])[2] for owners in (90, 180)
    )
    assert many <= 2 * few
