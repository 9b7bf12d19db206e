"""World: all that the allocator knows. The books (State), the machine, the settings, and each container as last seen.

A container's **footprint** is everywhere that it may be running, or would run if it started now:

- `seen`: where the last look found it (the kernel's word if it is live, else the engine's configuration);
- `configured`: where the engine would start it, and it may restart at any moment, unseen;
- the CPUs of an order that is not answered yet;
- `doubts`: the CPUs of orders that failed half-way, or whose answer was lost, or that a look overlapped and
  contradicts, until somebody looked again. An order that was
  lost may still take effect later, so its doubt stands until a later order of the same container is answered: the
  engine does one at a time.

Nothing here changes in place; `replace` makes new values, and the dicts are never written to.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec

from sidecar.decide.facts import ContainerView, EngineInfo, Failure, Load, Phase, ViewKind
from sidecar.decide.orders import ApplyCpuset, Update
from state.cpuset import EMPTY, CPUSet
from state.mistakes import Mistake
from state.model import Demand, MemsRule, NumaRule, Shortage, State
from state.refusal import Refusal
from state.topology import Topology

replace = msgspec.structs.replace

STRICT_RUNTIME: Final = "cpuset"
"""The name under which engines know the OCI runtime that asks before it starts a container."""

STRICT_PROGRAM: Final = "cpuset-runc"
"""The file name of that runtime."""


def is_strict_runtime(runtime: str) -> bool:
    """Whether this is the runtime that asks first, by its name or its path."""
    return runtime == STRICT_RUNTIME or runtime.rpartition("/")[2] == STRICT_PROGRAM


def shared_id(name: str) -> str:
    """The id under which the cgroup that confines the shared pool stands among the containers: 64 hex digits."""
    return hashlib.sha256(name.encode()).hexdigest()


class PolicyName(enum.StrEnum):
    """Who decides: nobody, the kubelet's static rules, or those and sizes that change."""

    NONE = "none"
    STATIC = "static"
    DYNAMIC = "dynamic"


class OptIn(enum.StrEnum):
    """How a container asks for exclusive CPUs: by its label, or also by limits that make it guaranteed."""

    LABEL = "label"
    GUARANTEED = "guaranteed"


class IsolatedRule(enum.StrEnum):
    """What CPUs that the kernel isolates are to exclusive containers; the shared pool has them only under `ignore`."""

    IGNORE = "ignore"
    """CPUs like any other."""
    PREFER = "prefer"
    """The first to be given."""
    ONLY = "only"
    """The only ones to be given."""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """How `cpuset.scale: load` reads a load: use per CPU is kept between `low` and `high` (0 to 1), and CPU pressure
    above `pressure` percent asks for one CPU more.
    """

    low: float = 0.5
    high: float = 0.8
    pressure: float = 20.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What of the configuration decisions need. `reserved_cpus` takes precedence over `reserved_count`.

    What follows `linger_seconds` up to `unmanaged` is for the policy `dynamic`: how long a workload has notice, how
    long one that grew is left in peace, the least change for its own sake in CPUs, how loads are read, and the most
    exchanges of CPUs a round.
    """

    policy: PolicyName = PolicyName.NONE
    reserved_cpus: CPUSet = EMPTY
    reserved_count: int = 0
    options: tuple[str, ...] = ()
    numa: NumaRule = NumaRule.NONE
    isolated: IsolatedRule = IsolatedRule.IGNORE
    shared_min: int = 0
    opt_in: OptIn = OptIn.LABEL
    shortage: Shortage = Shortage.SHARE
    linger_seconds: float = 10.0
    grace_seconds: float = 2.0
    cooldown_seconds: float = 10.0
    min_change: int = 1
    band: Band = Band()
    max_moves: int = 2
    unmanaged: tuple[str, ...] = ()
    """Name patterns (`db-*`), or `label=value` patterns, of containers that are left alone."""
    projections: str = "/run/cpuset-sidecar"
    shared_slice: str = ""
    """The slice, or path of a cgroup, that confines the shared pool as one; empty where there is none."""


class Standing(enum.StrEnum):
    """What a container is to the sidecar, from its labels and settings alone."""

    MANAGED = "managed"
    """In the shared pool, or exclusive where its demand is granted."""
    MEMBER = "member"
    """In the shared pool by the cgroup that it lives in: wherever that may run, it may; it has no CPUs of its own."""
    STRANGER = "stranger"
    """Pinned by hand: never moved, and its CPUs are given to nobody."""
    UNMANAGED = "unmanaged"
    """Left alone entirely."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a container is, and what it asks for: a demand, or why what it asks cannot be understood."""

    standing: Standing
    demand: Demand | None = None
    refusal: Refusal | None = None
    warnings: tuple[Mistake, ...] = ()
    mems: MemsRule = MemsRule.KEEP
    """What becomes of its memory nodes; its label counts whether it asks for CPUs or not."""


class Container(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One container as last seen. `known` is the ticket of the newest news; `arrival` orders first sights.

    `waits` is true between a failed order and its `RetryDue`; `refused` is the update that the engine called wrong, not
    to be repeated until then; `trouble` says in words what failed last, until an order succeeds. `keeps_mems` is true
    once the engine refused its memory nodes: its CPUs are not to fail for them again.
    """

    view: ContainerView
    wish: Wish
    arrival: int
    known: int
    seen: CPUSet
    configured: CPUSet
    """The engine's configured cpuset as a set; all online CPUs where it has none."""
    pending: ApplyCpuset | None = None
    is_delayed: bool = False
    """Whether the outstanding order is late: others need not wait for it."""
    was_looked_at: bool = False
    """Whether a look arrived while the order was outstanding: then neither it nor the outcome is the last word."""
    doubts: tuple[CPUSet, ...] = ()
    is_lost: bool = False
    waits: bool = False
    refused: Update | None = None
    keeps_mems: bool = False
    trouble: str = ""
    failure: Failure | None = None
    """How the last order failed, until one succeeds."""
    linger: int | None = None
    has_lingered: bool = False
    stop_ordered: str | None = None
    """`started_at` of the start that was ordered to be stopped."""
    grace: int | None = None
    """The number of the last take for which a grace runs."""
    cooldown: int | None = None
    """The number of the growth after which it is left in peace."""
    load: Load | None = None
    signalled: tuple[CPUSet, CPUSet] | None = None
    """The CPUs in force, and those leaving, of which it was last told by signal; None before it is first told."""
    held: int | None = None
    """The number of a start that its runtime holds until it is answered."""
    has_asked: bool = False
    """Whether its runtime ever asked before a start: then it does so before each."""

    @property
    def is_strict(self) -> bool:
        """Whether it never starts unseen, nor where the engine's configuration says: its runtime asks first. One whose
        lock was held when it was first seen may be starting on what an earlier sidecar answered.
        """
        return self.has_asked or (is_strict_runtime(self.view.runtime) and not self.view.is_glance)

    @cached_property
    def footprint(self) -> int:
        """Mask of everywhere that it may be running."""
        if self.view.phase is Phase.DEAD:
            # Half removed: it can neither be started nor updated, so what it is configured for holds no CPU.
            return 0
        mask = self.pending.update.cpus.mask if self.pending else 0
        if not self.is_strict:
            mask |= self.seen.mask | self.configured.mask
        elif not self.is_idle:
            mask |= self.seen.mask
        for doubt in self.doubts:
            mask |= doubt.mask
        return mask

    @property
    def sure(self) -> CPUSet:
        """The CPUs that it has whatever became of every order on its way or in doubt, and though it may have been
        started anew, unseen; may be empty.
        """
        mask = self.seen.mask & (self.pending.update.cpus.mask if self.pending else -1)
        mask &= -1 if self.is_strict else self.configured.mask
        for doubt in self.doubts:
            mask &= doubt.mask
        return CPUSet.from_mask(mask)

    @cached_property
    def is_idle(self) -> bool:
        """Whether it runs nothing now, though it may start at any moment."""
        return not self.view.phase.is_live


class Reach(msgspec.Struct, frozen=True):
    """All footprints laid on top of each other, as masks: CPUs touched by anybody, by two or more; and by those with a
    grant, by two or more of these.
    """

    anybody: int
    crowded: int
    exclusive: int
    contested: int

    def others(self, footprint: int) -> int:
        """CPUs touched by anybody but the container with this footprint."""
        return self.crowded | (self.anybody & ~footprint)

    def other_exclusive(self, footprint: int) -> int:
        """CPUs touched by an exclusive container other than the one with this footprint."""
        return self.contested | (self.exclusive & ~footprint)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair of the books did to the grant of this name, which held these CPUs: it `holds` others now, or none
    because of a refusal.
    """

    name: str
    held: CPUSet
    holds: CPUSet = EMPTY
    refusal: Refusal | None = None


class World(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Everything that decisions depend on. `numbers` gives orders, timers and arrivals their numbers."""

    state: State
    topology: Topology
    settings: Settings
    containers: Mapping[str, Container] = {}
    engine: EngineInfo | None = None
    is_ready: bool = False
    """Whether an inventory was taken since the engine was reached; nothing is ordered before."""
    is_releasing: bool = False
    is_defragmenting: bool = False
    """Whether the next decision looks for better CPUs: a grant ended, or somebody ordered it."""
    numbers: int = 0
    horizon: int = 0
    """The newest ticket at which it was known who exists: an older look at an unknown container proves nothing."""
    notes: tuple[Note, ...] = ()
    """What people should know about the books: what a repair had to change, and why."""

    def with_container(self, container: Container) -> World:
        """The world with this container as it is now."""
        return replace(self, containers={**self.containers, container.view.id: container})

    def without_container(self, id: str, ticket: int) -> World:
        """The world, and the books, without a container that no longer exists, as somebody found at `ticket`."""
        remaining = {key: value for key, value in self.containers.items() if key != id}
        horizon = max(self.horizon, ticket)
        is_released = self.is_defragmenting or id in self.state.assignments
        state = self.state.forgetting(id)
        return replace(self, containers=remaining, state=state, horizon=horizon, is_defragmenting=is_released)

    @cached_property
    def strangers(self) -> CPUSet:
        """CPUs that containers pinned by hand run on, or would start on."""
        mask = 0
        for container in self.containers.values():
            if container.wish.standing is Standing.STRANGER:
                mask |= container.footprint
        return CPUSet.from_mask(mask)

    @cached_property
    def group(self) -> Container | None:
        """The cgroup that confines the shared pool as one, as if it were a container; None where there is none."""
        if not self.settings.shared_slice:
            return None
        return next((each for each in self.containers.values() if each.view.kind is ViewKind.GROUP), None)

    def sure_of(self, container: Container) -> CPUSet:
        """The CPUs that a container has whatever became of every order: in a group, no others than the group's."""
        if not container.view.in_shared_group or self.group is None:
            return container.sure
        is_member = container.wish.standing is Standing.MEMBER
        return self.group.sure & (container.configured if is_member else container.sure)

    def confined_by(self, id: str) -> tuple[str, ...]:
        """Whose CPUs an order to this container changes: its own, and where it is the group those of all in it."""
        if self.group is None or id != self.group.view.id:
            return (id,)
        return (id, *(id for id, each in self.containers.items() if each.view.in_shared_group))

    @cached_property
    def reach(self) -> Reach:
        """Where everybody may be running. Containers that are left alone count as little as the host's processes do,
        and those of a group are where the group is.
        """
        anybody = crowded = exclusive = contested = 0
        assignments = self.state.assignments
        for id, container in self.containers.items():
            if container.wish.standing in (Standing.UNMANAGED, Standing.MEMBER):
                continue
            footprint = container.footprint
            crowded |= anybody & footprint
            anybody |= footprint
            if id in assignments:
                contested |= exclusive & footprint
                exclusive |= footprint
        return Reach(anybody, crowded, exclusive, contested)
