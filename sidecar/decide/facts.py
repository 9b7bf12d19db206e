"""What happened: the facts that `step` folds into the World, past tense. Their tagged union is the journal's format.

Looks at containers race with orders and with each other. `began` and `ended` are tickets from one counter, drawn when
a look began and when an order's outcome was known: a look that began before the newest outcome is outdated.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.engine_traits import EngineTraits
from sidecar.decide.hand_facts import HandFact
from state.cpuset import CPUSet
from state.derived_property import derived_property
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

    @property
    def may_begin(self) -> bool:
        """Whether the engine starts containers from here. It may be doing so, and their programs may run already."""
        return self in _STARTABLE


_LIVE: Final = (Phase.RUNNING, Phase.PAUSED)
_STARTABLE: Final = (Phase.CREATED, Phase.EXITED, Phase.RESTARTING)


class ViewKind(enum.StrEnum):
    """The kind of object that a ContainerView shows."""

    CONTAINER = "container"
    GROUP = "group"
    """The shared group, shown as if it were a container."""
    UNIT = "unit"
    """A unit of the host, shown as if it were a container. It asks for CPUs by labels alone."""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A mount of a container that may show a projection (`container/mounts.py`): `source` is a host path (bind) or a
    volume's name; `subpath` only for volumes.
    """

    source: str
    subpath: str = ""


class ContainerView(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One look at a container: what the engine has configured, and where the kernel lets it run.

    `engine` is the name of its engine, and `id` its id there: together they are its `key`. `labels` are only those that
    matter here (`cpuset.*`, and those with which compose and Swarm identify it), each cut to a bounded length. `cpuset`
    and `mems` are the engine's configured text, verbatim. `nano_cpus` is in 1e-9 CPUs; `cpu_quota` and `cpu_period` are
    in microseconds; `memory` and `memory_reservation` are in bytes; 0 means that nothing is set. `effective` is the
    cpuset that the kernel enforces for a live container, None for any other, or if the kernel's files cannot be read.
    `cgroup` is the path of its cgroup below the hierarchy's root, "" if the engine does not report it; `found_below` is
    the parent of the cgroup that it has, "" if it is not live or that is not visible; `runtime` is the name or path of
    its OCI runtime. `is_glance`: its lock was held, so CPUs and limits are not known.
    `in_shared_group`: it is, or would be created, in the shared group. `set_aside` is how many exclusive CPUs Swarm's
    scheduler counted for it (see `decide/container/swarm_task.py`). `forgets_updates`: while it is live, the engine
    reports the settings with which it was created and would be started, not those written since. `created_at` and
    `started_at` are the engine's time stamps, verbatim: equal text means the same start, and "" that it was never
    started. `image` is the name of the image with which it was created, "" if the engine does not report it.
    `is_infra`: it only holds a pod together. `pod` is the full id of its pod, "" if it is in none. `pod_cpuset` and
    `pod_limit` are those of its pod: the CPUs to which all of it is confined, as the engine's text, and the CPU limit
    of all of it in CPUs; "" and 0 if there is none. `names_no_cpuset`: the command that created it is known, and names
    no cpuset. `has_no_cgroup`: it was created to run in the cgroup of whatever starts it.
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
    found_below: str = ""
    runtime: str = ""
    forgets_updates: bool = False
    in_shared_group: bool = False
    is_glance: bool = False
    set_aside: int = 0
    created_at: str = ""
    started_at: str = ""
    image: str = ""
    is_infra: bool = False
    pod: str = ""
    pod_cpuset: str = ""
    pod_limit: float = 0.0
    names_no_cpuset: bool = False
    has_no_cgroup: bool = False
    mounts: tuple[Mount, ...] = ()
    effective: CPUSet | None = None

    @derived_property
    def key(self) -> ContainerKey:
        """Its identity among the containers of all engines."""
        return ContainerKey(self.engine, self.id)

    @derived_property
    def age(self) -> str:
        """When it was created, as text that sorts: a time stamp's fraction has no trailing zeros, and it ends in Z."""
        return self.created_at.rstrip("Z")


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine reports about itself. `ncpu` is its own ceiling for CPU limits, not the machine's count.

    `traits` are what it does not report: how it differs from others.
    `in_swarm`: it is a node of a swarm; `advertised` is how many exclusive CPUs it offers to a swarm's scheduler as a
    generic resource, None if it advertises no number. `notes` are sentences for people: features that it lacks, and
    containers that it cannot confine. `home` identifies it among all engines of the host: where it keeps its
    containers, and its permanent id; "" if it is not known.
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
    traits: EngineTraits = EngineTraits()
    in_swarm: bool = False
    advertised: int | None = None
    notes: tuple[str, ...] = ()
    home: str = ""


class EngineConnected(msgspec.Struct, frozen=True, tag=True):
    """The event stream is open (again), since ticket `began`. No order is given before an inventory that began later:
    an earlier one may lack unseen changes.
    """

    engine: EngineInfo
    began: int


class EngineDisconnected(msgspec.Struct, frozen=True, tag=True):
    """The event stream of an engine ended, or it cannot be reached: changes from now on are unseen. `engine` is its
    name; "" while that is not known, which is possible of an only engine.
    """

    reason: str
    engine: str = ""


class ContainerSeen(msgspec.Struct, frozen=True, tag=True):
    """A container was looked at."""

    view: ContainerView
    began: int


class ContainerRemoved(msgspec.Struct, frozen=True, tag=True):
    """The engine no longer knows this container."""

    container: ContainerKey
    began: int


class InventoryTaken(msgspec.Struct, frozen=True, tag=True):
    """All containers of an engine were looked at: `seen` are those that differ from the latest World, `gone` those that
    no longer exist. `lacks` are the other engines of this host, and the sources of units that were not looked at: what
    is not in it may exist all the same. `engine` is the name of the engine; "" for an only one. Without a list, only
    those that were known when it began were looked at: it shows neither which are gone nor which came.
    """

    seen: tuple[ContainerView, ...]
    gone: tuple[ContainerKey, ...]
    began: int
    lacks: tuple[str, ...] = ()
    engine: str = ""
    has_list: bool = True


class CpusetApplied(msgspec.Struct, frozen=True, tag=True):
    """An order took effect. `effective` is what the kernel shows afterwards, None if the container is idle or the
    kernel's files could not be read.
    """

    container: ContainerKey
    order: int
    effective: CPUSet | None
    ended: int


class Failure(enum.StrEnum):
    """How an order failed, by what is known afterwards."""

    REFUSED = "refused"
    """Nothing changed (400, 409)."""
    FAILED = "failed"
    """The engine tried: the kernel and the engine's configuration may disagree (5xx)."""
    LOST = "lost"
    """No answer: it may still take effect."""
    GONE = "gone"
    """The container no longer exists."""
    INEFFECTIVE = "ineffective"
    """Accepted, but the kernel shows other CPUs."""


class CpusetFailed(msgspec.Struct, frozen=True, tag=True):
    """An order failed, or its outcome is unknown. A `RetryDue` follows when it may be tried again."""

    container: ContainerKey
    order: int
    failure: Failure
    reason: str
    ended: int
    effective: CPUSet | None = None


class OrderDelayed(msgspec.Struct, frozen=True, tag=True):
    """The answer to an order is long overdue: another operation holds the container's lock."""

    container: ContainerKey
    order: int


class RetryDue(msgspec.Struct, frozen=True, tag=True):
    """The pause after the failed order of this number is over."""

    container: ContainerKey
    order: int


class Purpose(enum.StrEnum):
    """What a timer is for."""

    LINGER = "linger"
    """A stopped container keeps its CPUs for its next start."""
    GRACE = "grace"
    """A workload has notice before CPUs are taken from it. It must be notified before the time begins."""
    COOLDOWN = "cooldown"
    """A container that grew is not shrunk, except for a floor."""
    RECORD = "record"
    """The engine's records wait for a newcomer: its own until it lasted, those of others while it may be starting."""


class TimerEnded(msgspec.Struct, frozen=True, tag=True):
    """A timer started by `StartTimer` has ended."""

    container: ContainerKey
    purpose: Purpose
    number: int


class TakeAcknowledged(msgspec.Struct, frozen=True, tag=True):
    """The workload reported that it has left the CPUs of the take `number`."""

    container: ContainerKey
    number: int


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a container did over the last period, on `cpus` CPUs.

    `use` is in CPUs; `peak` is the highest use, halved every half-life. `pressure` is the share of time, in percent, in
    which some task waited for a CPU (PSI `some`): the lower of the shares over the period and over 10 s, 0 if the
    kernel does not report it. `is_throttled`: its quota stopped it at least once.
    """

    container: ContainerKey
    cpus: int
    use: float
    peak: float
    pressure: float = 0.0
    is_throttled: bool = False


class LoadMeasured(msgspec.Struct, frozen=True, tag=True):
    """The loads of elastic containers, only those that would change a wish."""

    loads: tuple[Load, ...]


class GiveUpRequested(msgspec.Struct, frozen=True, tag=True):
    """A container was ordered to release its exclusive CPUs until its next start. As with a size, an order that may not
    be served has no effect. `at` is the time of the order, as engines write it; "" if it is not known.
    """

    container: ContainerKey
    at: str = ""


class ResizeRequested(msgspec.Struct, frozen=True, tag=True):
    """A container was ordered to have so many CPUs. An order that may not be served has no effect; its refusal was
    reported to the caller beforehand.
    """

    container: ContainerKey
    cpus: int


class DefragmentRequested(msgspec.Struct, frozen=True, tag=True):
    """An exchange of CPUs for better ones was ordered, for containers that allow it."""


class StartHeld(msgspec.Struct, frozen=True, tag=True):
    """The OCI runtime asks about a start that it holds (strict start) until `AnswerStart` with this number.

    `view` is what a look showed already, with the cpuset and memory nodes of the runtime's own bundle; or a glance with
    the limits of that. Meanwhile the engine holds the container's lock, and answers neither looks nor orders.
    `is_usual`: the container did not choose a runtime that asks, which stands before the engine's own.
    """

    view: ContainerView
    number: int
    began: int
    is_usual: bool = False


class StartLetGo(msgspec.Struct, frozen=True, tag=True):
    """The runtime that asked about a start no longer waits for the answer."""

    container: ContainerKey
    number: int


class StopFailed(msgspec.Struct, frozen=True, tag=True):
    """A stop of a container for lack of CPUs failed, and the pause before the next attempt is over."""

    container: ContainerKey
    reason: str


class TopologyRead(msgspec.Struct, frozen=True, tag=True):
    """The machine was read (again)."""

    topology: Topology


class SettingsChanged(msgspec.Struct, frozen=True, tag=True):
    """The configuration was read again. `settings` is `sidecar.decide.settings.Settings` as plain JSON values."""

    settings: Mapping[str, object]


class ReleaseRequested(msgspec.Struct, frozen=True, tag=True):
    """A release was requested: all original settings are to be restored, and no CPUs granted any more."""


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
    | GiveUpRequested
    | DefragmentRequested
    | StartHeld
    | StartLetGo
    | StopFailed
    | TopologyRead
    | SettingsChanged
    | ReleaseRequested
    | HandFact
)
