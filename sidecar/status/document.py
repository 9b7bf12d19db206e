"""The status document, for people and their programs to read: its types. `describe` makes it from the World.

It shows for each container where it runs, where it should run, whether it is alone there, what it waits for and why it
has its CPUs, in whole sentences. It contains the machine, so that a reader can draw it without access to the host.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

import msgspec

from sidecar.decide.facts import EngineInfo, ViewKind
from sidecar.decide.settings import IsolatedRule
from sidecar.status.machine_map import MachineMap
from state.cpuset import EMPTY, CPUSet
from state.demand import NumaRule

VERSION: Final = 1


class SharingStatus(enum.StrEnum):
    """With what a container shares its CPUs, in the status document."""

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    STRANGER = "stranger"
    """Pinned by hand, and never moved."""
    UNMANAGED = "unmanaged"


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One of several engines: its `name`, the `version` that it told of itself, "" before it was ever reached, and
    whether all of its containers were looked at since it was reached. `why_not` is why that is not so.
    """

    name: str
    version: str = ""
    is_ready: bool = False
    why_not: str = ""


class NeighbourStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Another container that may run on the CPUs of an exclusive one, and on which of them."""

    name: str
    sharing: SharingStatus
    cpus: CPUSet


class LeavingStatus(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs that are being taken from a container: it may stay on them until it acknowledges `number`, for
    `notice_seconds`, which end at `until` (RFC 3339, UTC; "" where that is not known). Then the take `is_due`. Of
    several takes, these are the longest notice and the last end, and `number` is the last.
    """

    cpus: CPUSet
    number: int
    reason: str = ""
    is_due: bool = False
    notice_seconds: float = 0.0
    until: str = ""


class MoveStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a grant, and why it was made, as a sentence."""

    gained: CPUSet = EMPTY
    lost: CPUSet = EMPTY
    reason: str


class LoadStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The last measured load that mattered: `use` and `peak` in CPUs, `pressure` in percent."""

    use: float
    peak: float
    pressure: float = 0.0
    is_throttled: bool = False


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One container, or one unit of the host, as `kind` tells. `asked` is the number of exclusive CPUs it asks for, 0
    for none.

    `cpus` is where it was last seen, `desired` where it should be (empty if the sidecar does not decide that),
    `pending` where it is being moved (empty if it is not). `is_settled`: what was decided is in force. `is_alone`: it
    is also exclusive, and no other container that the sidecar can see may run on its CPUs. If it is exclusive,
    `neighbours` are the first of those that may, which are `neighbour_count`. `since` numbers grants in their order, -1
    without.

    `granted` are its recorded CPUs. It has between `floor` and `ceiling` CPUs, as `scale` and `weight` determine; 0 and
    "" unless the policy is dynamic. `ordered` is the size ordered by `resize`. `leaving` is what is being taken,
    `forced` counts takes without its acknowledgement, and `moves` are the last changes of its grant with their reasons.
    `clash` tells which containers are pinned by hand to its CPUs. `pinned` are the CPUs that no other container is
    granted now because this one is pinned there by hand.
    """

    id: str
    name: str
    engine: str = ""
    """That it is a container of, where there are several."""
    project: str = ""
    """That it is a part of, in compose or on a swarm."""
    kind: ViewKind = ViewKind.CONTAINER
    phase: str
    sharing: SharingStatus
    asked: int = 0
    cpus: CPUSet = EMPTY
    desired: CPUSet = EMPTY
    granted: CPUSet = EMPTY
    original: CPUSet = EMPTY
    pending: CPUSet = EMPTY
    is_settled: bool = False
    is_alone: bool = False
    neighbours: tuple[NeighbourStatus, ...] = ()
    neighbour_count: int = 0
    is_quota_lifted: bool = False
    exec_cpus: CPUSet = EMPTY
    """Where exec and health checks begin, if a front starts them; empty if on any of its CPUs."""
    since: int = -1
    floor: int = 0
    ceiling: int = 0
    scale: str = ""
    weight: int = 0
    ordered: int | None = None
    leaving: LeavingStatus | None = None
    forced: int = 0
    load: LoadStatus | None = None
    moves: tuple[MoveStatus, ...] = ()
    waits_for: str = ""
    clash: str = ""
    pinned: CPUSet = EMPTY
    refusal: str = ""
    turn: int = 0
    """Its place in the queue for exclusive CPUs, from 1; 0 if it is not in the queue."""
    trouble: str = ""
    warnings: tuple[str, ...] = ()
    explanation: tuple[str, ...] = ()


class HandStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The hand on the cgroups. It answers births below these `parents`, paths below the hierarchy's root; another one
    answers those below `taken`. Newborn groups that it cannot write may be on the CPUs `stuck`. `text` says all of that
    as a clause, or why there is none.
    """

    is_answering: bool
    parents: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    stuck: CPUSet = EMPTY
    text: str


class HoleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A unit of the host that is not confined, and why."""

    name: str
    reason: str


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the host's own processes are confined, and what is not; `text` says that as a clause."""

    is_confining: bool
    holes: tuple[HoleStatus, ...] = ()
    text: str


class AroundStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How often containers started around the front, by their runtime; `text` says that as a clause."""

    starts: Mapping[str, int] = {}
    text: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document. `updated_at` is RFC 3339, UTC. `problems` are the daemon's own: what it cannot do now."""

    version: int = VERSION
    program: str = ""
    updated_at: str = ""
    policy: str = "none"
    options: tuple[str, ...] = ()
    numa: NumaRule = NumaRule.NONE
    isolated: IsolatedRule = IsolatedRule.IGNORE
    shared_min: int = 0
    engine: EngineInfo | None = None
    engines: tuple[EngineStatus, ...] = ()
    is_ready: bool = False
    is_releasing: bool = False
    reserved: CPUSet = EMPTY
    shared: CPUSet = EMPTY
    exclusive: CPUSet = EMPTY
    capacity: int = 0
    """How many CPUs can be exclusive here at once."""
    free: int = 0
    """How many of these are free."""
    waiting: int = 0
    """How many containers wait for exclusive CPUs."""
    forced: int = 0
    """Takes whose grace period ended before the workload acknowledged, in total."""
    acknowledged: int = 0
    """Takes that the workload acknowledged in time, in total."""
    hand: HandStatus | None = None
    """None while it is not known whether there is one."""
    host: HostStatus | None = None
    """None if the host's own processes are not to be confined."""
    around: AroundStatus | None = None
    """None where no engine's own runtime is known to stand behind a front."""
    machine: MachineMap
    containers: tuple[ContainerStatus, ...] = ()
    units: tuple[ContainerStatus, ...] = ()
    """The units of the host that the sidecar sees."""
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def rows(self) -> tuple[ContainerStatus, ...]:
        """All containers, then all units of the host."""
        return (*self.containers, *self.units)
