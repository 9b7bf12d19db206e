"""One container as it really is, whatever the daemon believes of it."""

from __future__ import annotations

import dataclasses
from typing import Final

import msgspec

from sidecar.decide.facts import ContainerView, Load, Phase, ViewKind
from sidecar.decide.orders import AnswerStart
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey

ENGINE: Final = "reality"
"""What the engine of all of them calls itself."""


@dataclasses.dataclass
class Real:
    """One container as it really is. `is_dirty`: it changed in a way that no look has shown yet."""

    key: ContainerKey
    name: str
    labels: dict[str, str]
    kind: ViewKind = ViewKind.CONTAINER
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
    asks: bool = False
    """Whether its runtime asks the sidecar before each start."""
    held: int | None = None
    """The number of a start that waits for an answer; the engine holds its lock."""
    verdict: AnswerStart | None = None
    """The answer to a start that is still to come; the engine holds its lock."""
    is_member: bool = False
    """Whether it lives in the cgroup that confines the shared pool."""
    is_ours: bool = False
    """Whether an order of the daemon took effect on it that was not taken back."""
    is_tampered: bool = False
    """Whether somebody else changed its cpuset since an order last took effect on it."""
    above: CPUSet | None = None
    """What the cgroup above it has, where that lacks CPUs."""

    def runs_on(self, cpus: CPUSet) -> CPUSet:
        """Where the kernel lets it run that is configured for these: what is above it confines it."""
        return cpus if self.above is None else cpus & self.above or self.above

    def configured(self, online: CPUSet) -> CPUSet:
        """Where it would run if it started now; nowhere if all its CPUs are offline, since then it cannot start."""
        return CPUSet.parse(self.cpuset) & online if self.cpuset else online

    def reaches(self, online: CPUSet) -> CPUSet:
        """Where it may run now, or at any moment."""
        if self.effective is not None:
            return self.effective
        if self.phase is Phase.DEAD:
            return EMPTY
        if not self.asks:
            return self.configured(online)
        if self.verdict is None or self.verdict.refusal:
            return EMPTY
        return self.verdict.update.cpus if self.verdict.update else self.configured(online)

    @property
    def is_locked(self) -> bool:
        """Whether a start holds the engine's lock."""
        return self.held is not None or self.verdict is not None

    def view(self) -> ContainerView:
        """What a look at it shows."""
        return ContainerView(
            engine=self.key.engine,
            id=self.key.id,
            name=self.name,
            phase=self.phase,
            kind=self.kind,
            labels=self.labels,
            cpuset=self.cpuset,
            nano_cpus=self.nano_cpus,
            cpu_quota=self.cpu_quota,
            mems=self.mems,
            memory=self.memory,
            started_at=str(self.starts) if self.starts else "",
            created_at=str(self.created),
            effective=self.effective,
            runtime="cpuset" if self.asks else "runc",
            in_shared_group=self.is_member,
            set_aside=self.set_aside,
        )

    def glance(self) -> ContainerView:
        """What is seen of it without the engine's lock."""
        return msgspec.structs.replace(
            self.view(), cpuset="", mems="", nano_cpus=0, cpu_quota=0, memory=0, started_at="", is_glance=True
        )

    def load(self, *, is_throttled: bool = False) -> Load:
        """What it does: it uses what it would, as far as it has CPUs for it."""
        size = len(self.effective or ())
        use = min(self.demand, float(size))
        pressure = 60.0 if self.demand > size else 0.0
        return Load(container=self.key, cpus=size, use=use, peak=use, pressure=pressure, is_throttled=is_throttled)
