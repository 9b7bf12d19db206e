"""What happened: the facts that `step` folds into the World, past tense. Their tagged union is the journal's format.

Looks at containers race with orders and with each other. `began` and `ended` are tickets from one counter, drawn when
a look began and when an order's outcome was known: a look that began before the newest outcome is old news.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec

from state.cpuset import CPUSet
from state.key import ContainerKey
from state.topology import Topology


class Phase(enum.StrEnum):
    """A container's state in the engine's words."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    RESTARTING = "restarting"
    EXITED = "exited"
    REMOVING = "removing"
    DEAD = "dead"

    @property
    def is_live(self) -> bool:
        """Whether it has processes now."""
        return self in _LIVE


_LIVE: Final = (Phase.RUNNING, Phase.PAUSED)


class ViewKind(enum.StrEnum):
    """What stands behind a ContainerView."""

    CONTAINER = "container"
    GROUP = "group"
    """The cgroup that confines the shared pool, shown as if it were a container."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A mount of a container: `source` is a host path (bind) or a volume's name; `subpath` only for volumes."""

    source: str
    target: str
    subpath: str = ""


class ContainerView(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One look at a container: what the engine configured, and where the kernel lets it run.

    `engine` is the name of the engine whose it is, and `id` what that engine calls it: together they are its `key`.
    Labels are only those that matter here (`cpuset.*`, and those by which compose and Swarm say whose it is), each cut
    to a bounded length. `cpuset` and `mems` are the engine's configured text, verbatim. `nano_cpus` is in 1e-9 CPUs;
    `cpu_quota` and `cpu_period` in microseconds; `memory` and `memory_reservation` in bytes; 0 where nothing is set.
    `effective` is the kernel's own word about a live container, None where it is not live or the kernel's files cannot
    be read.
    `cgroup` is the path of its cgroup below the hierarchy's root, where the engine tells it, and `runtime` the name or
    path of its OCI runtime. `is_glance`: somebody held its lock, so CPUs and limits are not known. `in_shared_group`:
    it is, or would be born, in the cgroup that confines the shared pool as one.
    `set_aside` is how many exclusive CPUs Swarm's scheduler counted for it (see `decide/container/swarm_task.py`).
    `forgets_updates`: of a live one the engine tells what it was made with and would be started with, and not what was
    written since.
    `exists_since` and `started_at` are the engine's time stamps, verbatim: equal text means the same start.
    """

    engine: str = ""
    id: str
    name: str
    phase: Phase
    kind: ViewKind = ViewKind.CONTAINER
    labels: Mapping[str, str] = {}
    cpuset: str = ""
    mems: str = ""
    nano_cpus: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    memory: int = 0
    memory_reservation: int = 0
    pid: int = 0
    cgroup_parent: str = ""
    cgroup: str = ""
    runtime: str = ""
    forgets_updates: bool = False
    in_shared_group: bool = False
    is_glance: bool = False
    set_aside: int = 0
    created_at: str = ""
    started_at: str = ""
    mounts: tuple[Mount, ...] = ()
    effective: CPUSet | None = None

    @cached_property
    def key(self) -> ContainerKey:
        """Which container it is, among those of all engines."""
        return ContainerKey(self.engine, self.id)


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine says of itself. `ncpu` is its own ceiling for CPU limits, not the machine's count.

    `has_default_parent` is false where no cgroup parent can be set for all containers that name none (Podman).
    `keeps_updates` is false where an update is forgotten at the next start of the container (Podman before 5.1).
    `in_swarm`: it is a node of a swarm; `advertised` is how many exclusive CPUs it offers to a swarm's scheduler as a
    generic resource, None where that is not said. `notes` are what people must know of it, as sentences: what it lacks,
    and whom it cannot confine.
    """

    name: str
    version: str
    api_version: str
    ncpu: int
    cgroup_version: str = ""
    cgroup_driver: str = ""
    has_cpuset: bool = True
    live_restore: bool = False
    is_rootless: bool = False
    keeps_updates: bool = True
    has_default_parent: bool = True
    in_swarm: bool = False
    advertised: int | None = None
    notes: tuple[str, ...] = ()


class EngineConnected(msgspec.Struct, frozen=True, tag=True):
    """The event stream is open (again), since ticket `began`. Nothing is ordered before an inventory that began later:
    an earlier one may lack what happened unseen.
    """

    engine: EngineInfo
    began: int


class EngineDisconnected(msgspec.Struct, frozen=True, tag=True):
    """The event stream ended; what happens now is unseen."""

    reason: str


class ContainerSeen(msgspec.Struct, frozen=True, tag=True):
    """Somebody looked at a container."""

    view: ContainerView
    began: int


class ContainerRemoved(msgspec.Struct, frozen=True, tag=True):
    """The engine no longer knows this container."""

    container: ContainerKey
    began: int


class InventoryTaken(msgspec.Struct, frozen=True, tag=True):
    """Everything was looked at: `seen` holds what differs from the latest World, `gone` what is in it no more."""

    seen: tuple[ContainerView, ...]
    gone: tuple[ContainerKey, ...]
    began: int


class CpusetApplied(msgspec.Struct, frozen=True, tag=True):
    """An order took effect. `effective` is the kernel's word afterwards, None where it could not be read or is idle."""

    container: ContainerKey
    order: int
    effective: CPUSet | None
    ended: int


class Failure(enum.StrEnum):
    """How an order failed, by what may be believed afterwards."""

    REFUSED = "refused"
    """Nothing changed (400, 409)."""
    FAILED = "failed"
    """The engine tried: the kernel and the engine's books may disagree (5xx)."""
    LOST = "lost"
    """No answer: it may yet take effect."""
    GONE = "gone"
    """The container no longer exists."""
    INEFFECTIVE = "ineffective"
    """Accepted, and the kernel shows something else."""


class CpusetFailed(msgspec.Struct, frozen=True, tag=True):
    """An order failed, or its outcome is unknown. A `RetryDue` follows when it may be tried again."""

    container: ContainerKey
    order: int
    failure: Failure
    reason: str
    ended: int
    effective: CPUSet | None = None


class OrderDelayed(msgspec.Struct, frozen=True, tag=True):
    """An order is still not answered, long after it should be: something holds the container's lock."""

    container: ContainerKey
    order: int


class RetryDue(msgspec.Struct, frozen=True, tag=True):
    """The pause after the failed order of this number is over."""

    container: ContainerKey
    order: int


class Purpose(enum.StrEnum):
    """What is waited for."""

    LINGER = "linger"
    """A stopped container keeps its CPUs for its next start."""
    GRACE = "grace"
    """A workload has notice before CPUs are taken from it. It must have been told before the time begins."""
    COOLDOWN = "cooldown"
    """A container that grew is left in peace."""


class TimerEnded(msgspec.Struct, frozen=True, tag=True):
    """A timer that was ordered by `StartTimer` is over."""

    container: ContainerKey
    purpose: Purpose
    number: int


class TakeAcknowledged(msgspec.Struct, frozen=True, tag=True):
    """The workload has left the CPUs that take `number` takes from it, by its own word."""

    container: ContainerKey
    number: int


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a container did over the last period, on `cpus` CPUs. `use` is in CPUs; `peak` is the highest use, halved
    every half-life; `pressure` is the share of time in which some task waited for a CPU, over the period or over 10 s,
    whichever is less, in percent (PSI `some`; 0 where the kernel does not say); `is_throttled`: its quota stopped it at
    least once.
    """

    container: ContainerKey
    cpus: int
    use: float
    peak: float
    pressure: float = 0.0
    is_throttled: bool = False


class LoadMeasured(msgspec.Struct, frozen=True, tag=True):
    """What elastic containers use: those for which it would change anything."""

    loads: tuple[Load, ...]


class ResizeRequested(msgspec.Struct, frozen=True, tag=True):
    """Somebody ordered a container to have so many CPUs. What cannot be is not done: whoever asks is told before."""

    container: ContainerKey
    cpus: int


class DefragmentRequested(msgspec.Struct, frozen=True, tag=True):
    """Somebody ordered CPUs to be exchanged for better ones, where containers allow it."""


class StartHeld(msgspec.Struct, frozen=True, tag=True):
    """The OCI runtime asks about a start that it holds (strict start) until `AnswerStart` with this number.

    `view` is a glance, with the limits of the runtime's own bundle, or what is known already: the engine holds the
    container's lock meanwhile, so neither a look nor an order would be answered.
    """

    view: ContainerView
    number: int
    began: int


class StartLetGo(msgspec.Struct, frozen=True, tag=True):
    """Whoever asked about a start no longer waits for the answer."""

    container: ContainerKey
    number: int


class StopFailed(msgspec.Struct, frozen=True, tag=True):
    """A container that was to be stopped for want of CPUs was not."""

    container: ContainerKey
    reason: str


class TopologyRead(msgspec.Struct, frozen=True, tag=True):
    """The machine was read (again)."""

    topology: Topology


class SettingsChanged(msgspec.Struct, frozen=True, tag=True):
    """The configuration was read again. `settings` is `sidecar.decide.settings.Settings` as plain JSON values."""

    settings: Mapping[str, object]


class ReleaseRequested(msgspec.Struct, frozen=True, tag=True):
    """Everything is to be given back: original cpusets and quotas, and nothing granted any more."""


Fact = (
    EngineConnected
    | EngineDisconnected
    | ContainerSeen
    | ContainerRemoved
    | InventoryTaken
    | CpusetApplied
    | CpusetFailed
    | OrderDelayed
    | RetryDue
    | TimerEnded
    | TakeAcknowledged
    | LoadMeasured
    | ResizeRequested
    | DefragmentRequested
    | StartHeld
    | StartLetGo
    | StopFailed
    | TopologyRead
    | SettingsChanged
    | ReleaseRequested
)
