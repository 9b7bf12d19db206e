"""What workloads report on the modelled host: that they have vacated CPUs, and how busy they are."""

from __future__ import annotations

from sidecar.decide.facts import LoadMeasured, TakeAcknowledged
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality


def acknowledge(reality: Reality, index: int, number: int | None = None) -> None:
    """Acknowledge one of the takes for its workload, or acknowledge some other number."""
    takes = [each for each in reality.world.state.assignments.values() if each.leaving]
    if takes:
        each = takes[index % len(takes)]
        assert each.leaving is not None
        reality.feed(TakeAcknowledged(each.container, each.leaving.number if number is None else number))


def measure(reality: Reality, real: Real, *, is_throttled: bool = False) -> None:
    """Measure a container: it uses what it wants, within the CPUs that it has."""
    if real.effective is not None:
        reality.feed(LoadMeasured((real.load(is_throttled=is_throttled),)))


def measure_all(reality: Reality) -> bool:
    """Measure every live container; return whether that changed any order or timer."""
    loads = tuple(real.load() for real in reality.containers.values() if real.effective is not None)
    before = reality.world.state
    reality.feed(LoadMeasured(loads))
    return reality.world.state is not before
