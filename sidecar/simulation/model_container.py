"""ModelContainer: one container of a modelled host: the engine's record of it, and its real CPUs in the kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sidecar.decide.facts import ContainerView, Phase, ViewKind
from sidecar.simulation.model_kernel import ENGINE_GROUP, ModelKernel
from sidecar.simulation.model_limits import Limits
from state.cpuset import CPUSet
from state.key import ContainerKey


@dataclasses.dataclass(kw_only=True, eq=False)
class ModelContainer:
    """The part of a container that every driver of a ModelHost needs; each driver adds its own part in a subclass."""

    key: ContainerKey
    name: str
    kernel: ModelKernel = dataclasses.field(repr=False)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kind: ViewKind = ViewKind.CONTAINER
    limits: Limits = dataclasses.field(default_factory=Limits)
    phase: Phase = Phase.CREATED
    starts: int = 0
    created_at: str = ""
    started_at: str = ""
    quota: float | None = None
    """CPUs' worth of time that the kernel grants while it is live; None is without limit."""
    home: str = ENGINE_GROUP
    """The group in which its own group is made."""
    above: CPUSet | None = None
    """The CPUs of the group above it, if that lacks CPUs."""
    is_unseen: bool = True
    """Whether it changed in a way that no look has shown yet."""

    @property
    def id(self) -> str:
        """The engine's id for it, and the kernel's name for its group."""
        return self.key.id

    @property
    def effective(self) -> CPUSet | None:
        """Where it may run, according to the kernel; None while it does not run."""
        return self.kernel.effective(self.id)

    @property
    def group_above(self) -> str:
        """The group in which its own group is, or would be if it started now."""
        return self.home if self.above is None else f"above {self.id}"

    @property
    def cpuset(self) -> str:
        """As the engine keeps it."""
        return self.limits.cpuset

    @property
    def mems(self) -> str:
        """As the engine keeps them."""
        return self.limits.mems

    @property
    def nano_cpus(self) -> int:
        """As the engine keeps them, in 1e-9 CPUs."""
        return self.limits.nano_cpus

    @property
    def cpu_quota(self) -> int:
        """As the engine keeps it, in microseconds."""
        return self.limits.cpu_quota

    def configured(self, online: CPUSet) -> CPUSet:
        """Return where it would run if it started now; nowhere, and so unable to start, if all its CPUs are offline."""
        return CPUSet.parse(self.cpuset) & online if self.cpuset else online

    def advance(self, now: float) -> None:
        """Count its use until now; a driver that keeps time calls this before any change of its CPUs."""

    def view(self) -> ContainerView:
        """Return what a look at it shows."""
        limits = self.limits
        return ContainerView(
            engine=self.key.engine,
            id=self.key.id,
            name=self.name,
            phase=self.phase,
            kind=self.kind,
            labels=self.labels,
            created_at=self.created_at,
            started_at=self.started_at,
            cpuset=limits.cpuset,
            mems=limits.mems,
            nano_cpus=limits.nano_cpus,
            cpu_quota=limits.cpu_quota,
            cpu_period=limits.cpu_period,
            memory=limits.memory,
            memory_reservation=limits.memory_reservation,
            effective=self.effective,
            found_below=f"/{self.home}" if self.home and self.effective is not None else "",
        )
