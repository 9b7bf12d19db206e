"""What workloads tell of themselves on the modelled host: that they have left CPUs, and how busy they are."""

from __future__ import annotations

from sidecar.decide.facts import LoadMeasured, TakeAcknowledged
from tests.support.decide.real import Real
from tests.support.decide.reality import Reality


def acknowledge(reality: Reality, index: int, number: int | None = None) -> None:
    """The workload of one of the takes says that it has left, or one says so of another number."""
    takes = [each for each in reality.world.state.assignments.values() if each.leaving]
    if takes:
        each = takes[index % len(takes)]
        assert each.leaving is not None
        reality.feed(TakeAcknowledged(each.container, each.leaving.number if number is None else number))


def measure(reality: Reality, real: Real, *, is_throttled: bool = False) -> None:
    """A container is measured: it uses what it would, as far as it has CPUs for it."""
    if real.effective is not None:
        reality.feed(LoadMeasured((real.load(is_throttled=is_throttled),)))


def measure_all(reality: Reality) -> bool:
    """Every live container is measured; whether that changed anything that is done, or waited for."""
    loads = tuple(real.load() for real in reality.containers.values() if real.effective is not None)
    before = reality.world.state
    reality.feed(LoadMeasured(loads))
    return reality.world.state is not before
