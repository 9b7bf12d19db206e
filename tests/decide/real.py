"""One container as it really is, whatever the daemon believes of it."""

from __future__ import annotations

import dataclasses

from sidecar.decide.facts import ContainerView, Load, Phase
from state.cpuset import CPUSet


@dataclasses.dataclass
class Real:
    """One container as it really is. `is_dirty`: it changed in a way that no look has shown yet."""

    id: str
    name: str
    labels: dict[str, str]
    cpuset: str = ""
    nano_cpus: int = 0
    cpu_quota: int = 0
    mems: str = ""
    memory: int = 0
    phase: Phase = Phase.CREATED
    effective: CPUSet | None = None
    starts: int = 0
    is_dirty: bool = True
    created: int = 0
    limits: tuple[int, int] = (0, 0)
    """Nano CPUs and quota as it was created."""
    memory_nodes: str = ""
    """As it was created."""
    demand: float = 1.0
    """CPUs that it would use if it had as many as it likes."""
    set_aside: int = 0
    is_ours: bool = False
    """Whether an order of the daemon ever took effect on it."""

    def configured(self, online: CPUSet) -> CPUSet:
        """Where it would run if it started now; nowhere if all its CPUs are offline, since then it cannot start."""
        return CPUSet.parse(self.cpuset) & online if self.cpuset else online

    def reaches(self, online: CPUSet) -> CPUSet:
        """Where it may run now, or at any moment."""
        return self.effective if self.effective is not None else self.configured(online)

    def view(self) -> ContainerView:
        """What a look at it shows."""
        return ContainerView(
            id=self.id,
            name=self.name,
            phase=self.phase,
            labels=self.labels,
            cpuset=self.cpuset,
            nano_cpus=self.nano_cpus,
            cpu_quota=self.cpu_quota,
            mems=self.mems,
            memory=self.memory,
            started_at=str(self.starts) if self.starts else "",
            created_at=str(self.created),
            effective=self.effective,
            set_aside=self.set_aside,
        )

    def load(self, *, is_throttled: bool = False) -> Load:
        """What it does: it uses what it would, as far as it has CPUs for it."""
        size = len(self.effective or ())
        use = min(self.demand, float(size))
        pressure = 60.0 if self.demand > size else 0.0
        return Load(container=self.id, cpus=size, use=use, peak=use, pressure=pressure, is_throttled=is_throttled)
