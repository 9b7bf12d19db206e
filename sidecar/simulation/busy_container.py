"""BusyContainer: a modelled container in virtual time: what it uses, how that is measured, and its projection."""

from __future__ import annotations

import dataclasses

from sidecar.decide.books.load_sample import Peak, Sample, load_between
from sidecar.decide.facts import Load
from sidecar.simulation.model_container import ModelContainer
from sidecar.simulation.simulated_use import SimulatedUse
from state.cpuset import EMPTY, CPUSet
from state.projection import Projection


@dataclasses.dataclass(kw_only=True, eq=False)
class BusyContainer(ModelContainer):
    """`moves_in` is the time from notice to acknowledgement in seconds, None if it never acknowledges."""

    use: SimulatedUse
    follows: bool = False
    moves_in: float | None = None
    told: Projection | None = None
    """Its present projection."""
    free_at: float = 0.0
    """When the engine finishes its present operation on it."""
    sample: Sample | None = None
    """What it had used at the last measurement."""
    peak: Peak = dataclasses.field(default_factory=Peak)

    @property
    def usable(self) -> CPUSet:
        """Where its work runs: on all allowed CPUs; if it follows its projection, only on those that it keeps."""
        runs = self.effective or EMPTY
        if not self.follows or self.told is None:
            return runs
        return (self.told.cpus - self.told.leaving) & runs or runs

    def advance(self, now: float) -> None:
        """Count its use on its present CPUs until now."""
        self.use.advance(now, len(self.usable))

    def begin(self, now: float) -> None:
        """Start it: the kernel counts from zero."""
        self.use, self.sample = SimulatedUse(self.use.wanted, now), None

    def load(self, now: float, half_life: float) -> Load | None:
        """Return its load since the last measurement; None the first time."""
        self.advance(now)
        before, self.sample = self.sample, Sample(now, self.use.usage(), len(self.effective or EMPTY), str(self.starts))
        load = load_between(self.key, before, self.sample, self.peak, half_life) if before else None
        if load:
            self.peak = Peak(load.peak, now)
        return load
