"""Stories under the policy `dynamic`: arrivals with bounds, timers by their purpose, and workloads' files."""

from __future__ import annotations

from typing import Any

from sidecar.decide.facts import Load, LoadMeasured, Purpose, ResizeRequested, TakeAcknowledged
from sidecar.decide.orders import SendSignal, StartTimer
from sidecar.decide.settings import PolicyName
from sidecar.projection.projection_of import projection_of
from sidecar.words.causes import why
from state.cpuset import CPUSet
from state.model import Assignment
from state.projection import Projection
from state.topology import Topology, uniform
from tests.support.decide.real import Real
from tests.support.decide.stories import Story


class Dynamic(Story):
    """A host with eight cores, CPU 0 reserved."""

    def __init__(self, machine: Topology | None = None, **settings: Any) -> None:
        super().__init__(machine or uniform(cores=8), **{"policy": PolicyName.DYNAMIC, **settings})

    def elastic(self, name: str, cpus: int, least: int | None = None, most: int | None = None, **labels: str) -> Real:
        """Create and start a container, and answer everything that follows; timers do not fire."""
        real = self.arrive(name, cpus, labels=elastic_labels(least, most, **labels))
        self.settle()
        return real

    def grant(self, real: Real) -> Assignment:
        return self.world.state.assignments[real.key]

    def layout(self, *reals: Real) -> list[str]:
        """Return the CPUs of each container in the State."""
        return [str(self.grant(real).cpus) for real in reals]

    def leaving(self, real: Real) -> str:
        leaving = self.grant(real).leaving
        return str(leaving.cpus) if leaving else ""

    def told(self, real: Real) -> Projection:
        return projection_of(self.world, self.known(real))

    def why(self, real: Real) -> str:
        """Return the reason of the last change."""
        return why(self.grant(real).moves[-1].cause)

    def waiting(self, purpose: Purpose) -> list[StartTimer]:
        """Return the timers of a purpose that still count."""
        return [timer for timer in self.timers if timer.purpose is purpose and self._counts(timer)]

    def _counts(self, timer: StartTimer) -> bool:
        grant = self.world.state.assignments.get(timer.container)
        if grant is None:
            return False
        if timer.purpose is Purpose.GRACE:
            return grant.leaving is not None and timer.number in [each.number for each in grant.leaving.batches]
        return timer.purpose is not Purpose.COOLDOWN or grant.cooling == timer.number

    def over(self, purpose: Purpose, real: Real) -> None:
        """Fire the first timer of that purpose for a container, and answer what follows."""
        timer = next(each for each in self.waiting(purpose) if each.container == real.key)
        self.time_out(self.timers.index(timer))
        self.settle()

    def acked(self, real: Real) -> None:
        """Acknowledge for the workload, and answer what follows."""
        leaving = self.grant(real).leaving
        assert leaving is not None
        self.feed(TakeAcknowledged(real.key, leaving.number))
        self.settle()

    def used(self, real: Real, use: float, **load: Any) -> None:
        """Measure a container, and answer what follows."""
        size = len(real.effective or CPUSet())
        self.feed(LoadMeasured((Load(**{"container": real.key, "cpus": size, "use": use, "peak": use, **load}),)))
        self.settle()

    def resized(self, real: Real, cpus: int) -> None:
        """Order a size, and answer what follows."""
        self.feed(ResizeRequested(real.key, cpus))
        self.settle()


def elastic_labels(least: int | None, most: int | None, **labels: str) -> dict[str, str]:
    """Return the labels of bounds, and others by their names without the prefix."""
    bounds = {"min": least, "max": most}
    return {
        **{f"cpuset.{word}": str(value) for word, value in bounds.items() if value is not None},
        **{f"cpuset.{word.replace('_', '-')}": value for word, value in labels.items()},
    }


def signals_to(story: Dynamic, real: Real) -> list[str]:
    """Return the signals that were ordered for a container."""
    return [order.signal for order in story.given if isinstance(order, SendSignal) and order.container == real.key]
