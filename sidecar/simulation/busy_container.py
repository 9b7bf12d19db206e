"""BusyContainer: a modelled container in virtual time: what it uses, how that is measured, and its projection."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec

from sidecar.decide.books.load_sample import Peak, Sample, load_between
from sidecar.decide.container.start import is_strict_runtime
from sidecar.decide.facts import ContainerView, Load
from sidecar.simulation.model_container import ModelContainer
from sidecar.simulation.simulated_use import SimulatedUse
from state.cpuset import EMPTY, CPUSet
from state.projection import Projection


@dataclasses.dataclass(kw_only=True, eq=False)
class BusyContainer(ModelContainer):
    """`moves_in` is the time from notice to acknowledgement in seconds, None if it never acknowledges."""

    use: SimulatedUse
    image: str = ""
    runtime: str = ""
    held: int | None = None
    """The number of a start that its runtime holds until the sidecar answers, 0 while it waits for its turn. Meanwhile
    the engine holds its lock.
    """
    waiting: list[Callable[[], None]] = dataclasses.field(default_factory=list)
    """What is to be done with it once a held start has its answer."""
    is_starting: bool = False
    """Whether a start that was held goes on."""
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
    def is_strict(self) -> bool:
        """Whether its runtime asks before each start."""
        return is_strict_runtime(self.runtime)

    def view(self) -> ContainerView:
        """Return what a look at it shows; while a start is held, only what is seen without the engine's lock."""
        seen = msgspec.structs.replace(super().view(), runtime=self.runtime, image=self.image)
        return seen if self.held is None and not self.is_starting else _glance(seen)

    def bundle(self) -> ContainerView:
        """Return what its runtime knows of it while it holds a start."""
        limits, seen = self.limits, self.view()
        quota = limits.cpu_quota or limits.nano_cpus // 10_000
        return msgspec.structs.replace(
            seen, cpuset=limits.cpuset, mems=limits.mems, cpu_quota=quota, memory=limits.memory, is_glance=True
        )

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


def _glance(view: ContainerView) -> ContainerView:
    """Return what is visible of a container while the engine holds its lock."""
    return msgspec.structs.replace(
        view, cpuset="", mems="", nano_cpus=0, cpu_quota=0, memory=0, started_at="", is_glance=True
    )
