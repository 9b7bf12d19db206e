"""ModelHost: what containers on an imagined host really do, in virtual time: the engine's books and the kernel's word.

Pure: every method is told the time. It follows cgroup v2: a container runs on what of its cpuset is online, and
everywhere if nothing of it is. The engine holds a container's lock for as long as it works on it, so an update waits
for a start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.books.load_sample import Peak, Sample, load_between
from sidecar.decide.facts import ContainerView, Load, Phase
from sidecar.decide.orders import Update
from sidecar.failures import SidecarError
from sidecar.simulation.simulated_use import SimulatedUse
from state.cpuset import EMPTY, CPUSet
from state.key import ContainerKey
from state.projection import Projection
from state.topology import Topology, with_online

ENGINE: Final = "simulated"
"""What the imagined engine calls itself."""


class ScenarioError(SidecarError):
    """A scenario that cannot be played: what is wrong, where, and what would be right."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take, in seconds, on a quiet host with Docker."""

    hint: float = 0.001
    """From an event of the engine until the container was looked at."""
    store: float = 0.003
    """An update of a container without processes: a write of configuration."""
    apply: float = 0.010
    """An update of a live one, with the kernel's confirmation."""
    between: float = 0.010
    """From the create to the start of one `docker run`."""
    start: float = 0.200
    stop: float = 0.050
    hotplug: float = 0.050
    """From a CPU's coming or going until the machine was read again."""


@dataclasses.dataclass(slots=True, kw_only=True)
class ModelContainer:
    """One container as it really is. `moves_in`: seconds from notice to acknowledgement, None where it never does."""

    key: ContainerKey
    name: str
    labels: Mapping[str, str]
    use: SimulatedUse
    cpuset: str = ""
    nano_cpus: int = 0
    cpu_quota: int = 0
    mems: str = ""
    phase: Phase = Phase.CREATED
    effective: CPUSet | None = None
    starts: int = 0
    follows: bool = False
    moves_in: float | None = None
    told: Projection | None = None
    """What its projection says."""
    free_at: float = 0.0
    """When the engine is done with what it does to it."""
    is_unseen: bool = True
    """Whether it changed in a way that no look has shown yet."""
    sample: Sample | None = None
    """What it had used when it was last measured."""
    peak: Peak = dataclasses.field(default_factory=Peak)

    @property
    def usable(self) -> CPUSet:
        """Where its work runs: everywhere that it may; or, if it follows its projection, what that says it keeps."""
        runs = self.effective or EMPTY
        if not self.follows or self.told is None:
            return runs
        return (self.told.cpus - self.told.leaving) & runs or runs

    def view(self) -> ContainerView:
        """What a look at it shows."""
        return ContainerView(
            engine=self.key.engine,
            id=self.key.id,
            name=self.name,
            phase=self.phase,
            labels=self.labels,
            cpuset=self.cpuset,
            mems=self.mems,
            nano_cpus=self.nano_cpus,
            cpu_quota=self.cpu_quota,
            started_at=str(self.starts) if self.starts else "",
            effective=self.effective,
        )

    def advance(self, now: float) -> None:
        """It has had the CPUs that it has until now: count what it used of them."""
        self.use.advance(now, len(self.usable))

    def load(self, now: float, half_life: float) -> Load | None:
        """What it did since it was last measured; None the first time."""
        self.advance(now)
        before, self.sample = self.sample, Sample(now, self.use.usage(), len(self.effective or EMPTY), str(self.starts))
        load = load_between(self.key, before, self.sample, self.peak, half_life) if before else None
        if load:
            self.peak = Peak(load.peak, now)
        return load


class ModelHost:
    """The machine, and the containers by their ids, in the order in which they were created."""

    def __init__(self, machine: Topology) -> None:
        self.machine = machine
        self.online = machine.online
        self.containers: dict[ContainerKey, ModelContainer] = {}
        self._created = 0

    def named(self, name: str) -> ModelContainer:
        """The container of that name. ScenarioError where there is none now."""
        for each in self.containers.values():
            if each.name == name:
                return each
        there = ", ".join(each.name for each in self.containers.values()) or "none"
        raise ScenarioError(f"there is no container {name!r} now; there is {there}")

    def create(self, name: str, labels: Mapping[str, str], now: float, demand: float) -> ModelContainer:
        """A container, not started. ScenarioError where the name is in use."""
        if any(each.name == name for each in self.containers.values()):
            raise ScenarioError(f"there is a container {name!r} already: remove it before it is created again")
        self._created += 1
        key = ContainerKey(ENGINE, f"{self._created:064x}")
        made = ModelContainer(key=key, name=name, labels=labels, use=SimulatedUse(demand, now))
        self.containers[made.key] = made
        return made

    def start(self, real: ModelContainer, now: float) -> bool:
        """It runs from now on; False where its CPUs are not online, so that it cannot."""
        wanted = CPUSet.parse(real.cpuset)
        if real.phase.is_live or not wanted <= self.online:
            return real.phase.is_live
        real.advance(now)
        real.use = SimulatedUse(real.use.wanted, now)
        real.sample = None
        real.phase, real.effective, real.starts, real.is_unseen = (
            Phase.RUNNING,
            wanted or self.online,
            real.starts + 1,
            True,
        )
        return True

    def stop(self, real: ModelContainer, now: float) -> None:
        """Its processes are gone."""
        if real.phase.is_live:
            real.advance(now)
            real.phase, real.effective, real.is_unseen = Phase.EXITED, None, True

    def remove(self, real: ModelContainer, now: float) -> None:
        """It is gone."""
        self.stop(real, now)
        del self.containers[real.key]

    def is_possible(self, update: Update) -> bool:
        """Whether the engine would take an update: only of CPUs that are online."""
        return update.cpus <= self.online

    def apply(self, real: ModelContainer, update: Update, now: float) -> None:
        """An update takes effect."""
        real.advance(now)
        real.cpuset = str(update.cpus)
        real.nano_cpus = real.nano_cpus if update.nano_cpus is None else update.nano_cpus
        real.cpu_quota = real.cpu_quota if update.cpu_quota is None else update.cpu_quota
        real.mems = real.mems if update.mems is None else update.mems
        if real.phase.is_live:
            real.effective = update.cpus

    def switch(self, online: CPUSet, now: float) -> None:
        """Other CPUs of the machine are online from now on. ScenarioError where that is none."""
        if not online:
            raise ScenarioError("the last CPU cannot go offline")
        self.online = online
        for real in self.containers.values():
            if real.phase.is_live:
                real.advance(now)
                before = real.effective
                real.effective = CPUSet.parse(real.cpuset) & online or online
                real.is_unseen = real.is_unseen or real.effective != before

    def topology(self) -> Topology:
        """The machine with the CPUs that are online."""
        return self.machine if self.online == self.machine.online else with_online(self.machine, self.online)
