"""A modelled host without a daemon: its CPUs, its containers, and what users and the engine do to them."""

from __future__ import annotations

from sidecar.decide.facts import Phase, ViewKind
from sidecar.decide.settings import shared_id
from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import Topology, with_online
from tests.decide.real import ENGINE, Real


class Host:
    """CPUs and containers. `group` is the cgroup that confines the shared pool, if it has a name."""

    def __init__(self, machine: Topology, shared_slice: str) -> None:
        self.machine = machine
        self.present = machine.online
        self.online = machine.online
        self.engine_mems = CPUSet(machine.memory)
        self.containers: dict[ContainerKey, Real] = {}
        self.created = 0
        self.group: Real | None = None
        if shared_slice:
            key = ContainerKey(ENGINE, shared_id(shared_slice))
            live = Phase.RUNNING
            self.group = Real(key, shared_slice, {}, ViewKind.GROUP, phase=live, effective=machine.online)
            self.containers[key] = self.group

    def create(
        self, labels: dict[str, str], *, cpuset: str = "", nano_cpus: int = 0, quota: int = 0, mems: str = ""
    ) -> Real:
        """A new container, not started."""
        self.created += 1
        key = ContainerKey(ENGINE, f"{self.created:064x}")
        real = Real(key, f"c{self.created}", labels, cpuset=cpuset, nano_cpus=nano_cpus, cpu_quota=quota)
        real.created, real.limits = self.created, (nano_cpus, quota)
        real.mems = real.memory_nodes = mems
        self.containers[key] = real
        return real

    def start(self, real: Real) -> None:
        """Start it: where its configuration says. A start on CPUs that are all offline fails."""
        if real.phase in (Phase.CREATED, Phase.EXITED, Phase.RESTARTING):
            wanted = CPUSet.parse(real.cpuset)
            if wanted and not wanted <= self.online:
                return
            real.phase, real.starts = Phase.RUNNING, real.starts + 1
            self.enter(real, wanted or self.online)

    def enter(self, real: Real, cpus: CPUSet) -> None:
        """A live container comes to run where it is configured for, as far as what is above it lets it. That it runs
        elsewhere is news.
        """
        real.effective = real.runs_on(cpus)
        real.is_dirty = real.is_dirty or not real.effective <= cpus
        self.confine()

    def relent(self, real: Real) -> None:
        """What is above a container has all CPUs again, and it runs where it is configured for."""
        if real.above is None:
            return
        real.above = None
        if real.phase.is_live:
            real.effective = real.configured(self.online) or self.online
        self.confine()

    def confine(self) -> None:
        """Where the members of the group run follows from where it does."""
        for real in self.containers.values():
            if real.is_member and real.phase.is_live and self.group and self.group.effective:
                real.effective = real.configured(self.group.effective) & self.group.effective or self.group.effective

    def stop(self, real: Real, *, restarts: bool = False) -> None:
        """It ends, by itself or not."""
        if real.phase.is_live:
            real.phase, real.effective = Phase.RESTARTING if restarts else Phase.EXITED, None

    def remove(self, real: Real, *, by_half: bool = False) -> None:
        """It is gone; by half, it is still listed, and can be neither started nor updated."""
        if by_half:
            real.phase, real.effective = Phase.DEAD, None
        else:
            del self.containers[real.key]

    def tamper(self, real: Real, cpus: CPUSet) -> None:
        """Somebody else's `docker update --cpuset-cpus`."""
        if cpus and cpus <= self.online and real.phase is not Phase.DEAD:
            real.cpuset, real.is_dirty, real.is_tampered = str(cpus), True, True
            if real.phase.is_live:
                self.enter(real, cpus)

    def toggle_cpu(self, cpu: int) -> None:
        """A CPU goes offline or comes back (cgroup v2: effective sets shrink, fall back to all, and come back)."""
        changed = CPUSet.from_mask(self.online.mask ^ (1 << cpu))
        if not changed:
            return
        self.online = changed
        for real in self.containers.values():
            if real.phase.is_live:
                before = real.effective
                if real.above is not None:
                    real.above = real.above & changed or changed
                real.effective = real.runs_on(real.configured(changed) or changed)
                real.is_dirty = real.is_dirty or real.effective != before
        self.confine()

    def machine_now(self) -> Topology:
        """The machine with the CPUs that are online."""
        return with_online(self.machine, self.online)
