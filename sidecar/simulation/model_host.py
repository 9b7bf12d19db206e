"""ModelHost: what containers on a simulated host really do, in the engine's records and in the kernel, by one rule
book.

Pure, and without a clock: the time is an argument. Three drivers use it: random histories decide the fate of each
order, the simulation has an agenda, and the simulated engine waits by trio's clock. Refusals are in the engine's own
words; the contract suite checks the same against real engines.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from sidecar.decide.facts import Phase
from sidecar.decide.orders import Update
from sidecar.failures import EngineFailed, EngineRefused
from sidecar.simulation.model_container import ModelContainer
from sidecar.simulation.model_kernel import Denied, ModelKernel
from sidecar.simulation.model_limits import Limits, Present, changed, check, merged, quota_after, quota_at_start
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import Topology

C = TypeVar("C", bound=ModelContainer)

_BEGINNING: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""When time begins on a modelled host."""

STARTABLE: Final = (Phase.CREATED, Phase.EXITED, Phase.RESTARTING)
"""Phases from which the engine starts a container."""


class ModelHost(Generic[C]):
    """The machine, and the containers by their keys, in the order of their creation."""

    def __init__(self, kernel: ModelKernel) -> None:
        self.kernel = kernel
        self.containers: dict[ContainerKey, C] = {}
        self.mems = kernel.memory_nodes()
        """The memory nodes that the engine accepts."""
        self.cpus_at_boot: CPUSet | None = None
        """The CPUs that the engine saw when it started, if it reads the machine's CPUs only then."""

    @property
    def machine(self) -> Topology:
        """The machine as it was at the beginning."""
        return self.kernel.machine

    @property
    def online(self) -> CPUSet:
        """The CPUs that are online now."""
        return self.kernel.online()

    def topology(self) -> Topology:
        """Return the machine with its online CPUs."""
        return self.kernel.topology()

    def present(self) -> Present:
        """Return what the engine checks limits against."""
        cpus = self.online if self.cpus_at_boot is None else self.cpus_at_boot
        return Present(len(cpus), cpus, self.mems)

    def add(self, made: C) -> C:
        """Add a container, not started, and return it. Raise EngineRefused if its name is in use."""
        if any(each.name == made.name for each in self.containers.values()):
            raise EngineRefused(f'Conflict. The container name "/{made.name}" is already in use')
        self.containers[made.key] = made
        return made

    def start(self, real: C, now: float = 0.0) -> bool:
        """Start its processes. Return whether it is live; it cannot start if its limits are not possible now."""
        if real.phase in STARTABLE:
            try:
                check(real.limits, self.present())
                self.enter(real, real.limits, now)
            except EngineRefused:
                pass
        return real.phase.is_live

    def enter(self, real: C, limits: Limits, now: float = 0.0, *, stamp: str = "") -> None:
        """Complete a start with limits that were read earlier. Raise EngineRefused if the kernel denies it."""
        real.advance(now)
        try:
            self.kernel.enter(real.id, CPUSet.parse(limits.cpuset), real.group_above)
        except Denied as error:
            raise EngineRefused(f"failed to create shim task: OCI runtime create failed: {error}") from error
        real.phase, real.starts, real.quota = Phase.RUNNING, real.starts + 1, quota_at_start(limits)
        real.started_at = stamp or self.stamp(now, real.starts)

    def stamp(self, now: float, start: int = 0) -> str:
        """Return the time stamp of a moment, or of the start of this number then: no two starts of a container have the
        same.
        """
        return (_BEGINNING + timedelta(seconds=now, microseconds=start)).isoformat()

    def die(self, real: C, now: float = 0.0, *, restarts: bool = False) -> None:
        """End its processes, by themselves or not."""
        real.advance(now)
        self.kernel.leave(real.id)
        real.phase, real.quota = Phase.RESTARTING if restarts else Phase.EXITED, None

    def remove(self, real: C, now: float = 0.0, *, by_half: bool = False) -> None:
        """Remove it; by half, it is still listed, and can be neither started nor updated."""
        if real.phase.is_live:
            self.die(real, now)
        if by_half:
            real.phase = Phase.DEAD
        else:
            real.phase = Phase.REMOVING
            self.containers.pop(real.key, None)

    def pause(self, real: C) -> None:
        """Freeze it. Raise EngineRefused if it does not run."""
        if real.phase is not Phase.RUNNING:
            raise EngineRefused(f"Container {real.id} is not running")
        real.phase = Phase.PAUSED

    def unpause(self, real: C) -> None:
        """Thaw it. Raise EngineFailed if it is not paused."""
        if real.phase is not Phase.PAUSED:
            raise EngineFailed(f"Container {real.id} is not paused")
        real.phase = Phase.RUNNING

    def objection(self, real: C, update: Update) -> str:
        """Return why the engine would refuse an update now, in its words; "" if it would not."""
        try:
            check(changed(update), self.present())
            merged(real.limits, changed(update), real.id)
        except EngineRefused as error:
            return str(error)
        return f"Container {real.id} is dead" if real.phase is Phase.DEAD else ""

    def store(self, real: C, change: Limits) -> Limits:
        """Write an update into the engine's records, and return the previous limits. Raise EngineRefused."""
        stored, real.limits = real.limits, merged(real.limits, change, real.id)
        return stored

    def apply(self, real: C, change: Limits, now: float = 0.0) -> None:
        """Apply an update to a live container. Raise EngineFailed if the kernel denies it."""
        real.advance(now)
        try:
            if change.cpuset:
                self.kernel.write(real.id, CPUSet.parse(change.cpuset))
        except Denied as error:
            raise EngineFailed(f"Cannot update container {real.id}: write cpuset.cpus: {error}: unknown") from error
        real.quota = quota_after(change, real.limits, real.quota)

    def update(self, real: C, change: Limits, now: float = 0.0) -> None:
        """Store an update, and apply it if the container is live. Raise EngineRefused or EngineFailed."""
        self.store(real, change)
        if real.phase.is_live:
            self.apply(real, change, now)

    def switch(self, online: CPUSet, now: float = 0.0) -> None:
        """Set which CPUs of the machine are online from now on; containers that run elsewhere than before become
        unseen.
        """
        before = {key: real.effective for key, real in self.containers.items()}
        for real in self.containers.values():
            real.advance(now)
        self.kernel.take_offline(self.online - online)
        self.kernel.bring_online(online - self.online)
        for key, real in self.containers.items():
            real.is_unseen = real.is_unseen or real.effective != before[key]

    def shrink_above(self, real: C) -> None:
        """Limit the group above a live container to the container's present CPUs."""
        if real.effective is not None:
            real.above = real.effective
            self.kernel.confine(real.above, real.group_above)
            self.kernel.put_below(real.group_above, real.home)
            self.kernel.put_below(real.id, real.group_above)

    def relent(self, real: C) -> None:
        """Give the group above a container all CPUs again."""
        if real.above is not None:
            real.above = None
            if real.phase.is_live:
                self.kernel.put_below(real.id, real.home)
