"""No oscillation: a constant input comes to rest in a bounded number of changes, and stays at rest."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.decide.facts import Purpose
from state.key import ContainerKey
from tests.support.decide.histories import DYNAMIC, MACHINES, going_on, random_history
from tests.support.decide.reality import Reality
from tests.support.decide.strictstarts import one_goes_on
from tests.support.decide.workloads import acknowledge, measure_all
from tests.support.long_examples import UNSHRUNK


def upset(seed: int) -> Reality:
    """Return a host after a random history, whose containers have random wants from then on."""
    rng = random.Random(seed)
    reality = Reality(rng.choice(MACHINES), rng.choice(DYNAMIC))
    for op in random_history(rng, 40):
        going_on(reality, op)
    for real in reality.containers.values():
        real.demand = rng.random() * len(reality.machine.online)
    while reality.land_late():
        pass
    while one_goes_on(reality):
        pass
    if not reality.is_reached:
        # Nothing comes to rest while the engine is away: an order to a container whose start is held waits for it.
        reality.connect()
    reality.read_topology()
    reality.take_inventory()
    return reality


def changes_until_quiet(reality: Reality) -> int:
    """Answer everything and measure every container, until no order is outstanding and nothing changes; return how many
    times a size changed until then.
    """
    count, before = 0, sizes(reality)
    for _ in range(5000):
        if not _goes_on(reality):
            return count
        now = sizes(reality)
        count += sum(before.get(id) != size for id, size in now.items())
        before = now
    raise AssertionError(f"not quiet after 5000 steps and {count} changes of a size")


def _goes_on(reality: Reality) -> bool:
    """Let one due thing happen; every other workload acknowledges before its grace is over."""
    if one_goes_on(reality):
        return True
    is_waiting = reality.timers and not (reality.flight or reality.looks or reality.inventories or reality.retries)
    if is_waiting and reality.timers[0].purpose is Purpose.GRACE and reality.timers[0].number % 2:
        acknowledge(reality, 0)
    return reality.go_on() or measure_all(reality)


def sizes(reality: Reality) -> dict[ContainerKey, int]:
    return {id: len(grant.cpus) for id, grant in reality.world.state.assignments.items()}


@settings(deadline=None, phases=UNSHRUNK)
@given(seed=st.integers(0, 2**32))
def test_a_constant_input_comes_to_rest_in_few_changes_and_stays_there(seed: int) -> None:
    """From any start: at most ten changes of a size for each container (following a load from one CPU to twelve needs
    seven).
    """
    reality = upset(seed)
    # A container that was stopped for lack of CPUs is seen to have ended.
    changes_until_quiet(reality)
    reality.take_inventory()
    assert changes_until_quiet(reality) <= 10 * max(1, len(reality.containers))
    quiet = reality.world.state
    for _ in range(10):
        reality.take_inventory()
        assert not measure_all(reality)
        assert (reality.flight, reality.timers, reality.world.state) == ([], [], quiet)
