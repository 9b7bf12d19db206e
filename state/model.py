"""Who asked for what, and who holds what: Demand, Assignment, Refused, Originals, State.

State is everything that must survive: it is what the checkpoint holds. The shared pool is not stored but derived:
what is online and not granted is shared, so no step, crash or bug can lose a CPU. Values never change; a change is a
new value, and the dicts inside are never written to.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from state.cause import Cause
from state.cpuset import EMPTY, CPUSet, union
from state.key import ContainerKey
from state.refusal import Refusal

T = TypeVar("T")


class Shortage(enum.StrEnum):
    """What a container wants when its CPUs are not to be had (label `cpuset.on-shortage`)."""

    SHARE = "share"
    """Run in the shared pool."""
    WAIT = "wait"
    """Run in the shared pool, and be upgraded when the CPUs are free."""
    STOP = "stop"
    """Be stopped."""


class QuotaRule(enum.StrEnum):
    """What happens to the CFS quota of a container that has exclusive CPUs (label `cpuset.quota`)."""

    LIFT = "lift"
    KEEP = "keep"


class NumaRule(enum.StrEnum):
    """How CPUs must lie to NUMA nodes (label `cpuset.numa`): the kubelet's topology manager policies."""

    NONE = "none"
    """They may lie anywhere."""
    BEST_EFFORT = "best-effort"
    """On as few nodes as can be had now."""
    RESTRICTED = "restricted"
    """On as few nodes as the machine could do it with, or not at all."""
    SINGLE = "single"
    """On one node, or not at all (the kubelet's single-numa-node)."""


class MemsRule(enum.StrEnum):
    """What happens to the memory nodes of a container that has exclusive CPUs (label `cpuset.mems`)."""

    KEEP = "keep"
    FOLLOW = "follow"
    """They are the nodes of its CPUs."""


class Scale(enum.StrEnum):
    """Who decides how many CPUs an elastic container has between its floor and its ceiling (label `cpuset.scale`)."""

    FILL = "fill"
    """It gets its share of all that is spare."""
    LOAD = "load"
    """What it uses decides."""
    MANUAL = "manual"
    """People do, by `resize`."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """A container's lawful wish for `cpus` whole CPUs of its own (at least 1).

    What follows `mems` matters under the policy `dynamic` alone: 1 <= `min_cpus` <= `cpus` <= `max_cpus`, None where
    they are not given.
    """

    container: ContainerKey
    name: str
    cpus: int
    shortage: Shortage = Shortage.SHARE
    quota: QuotaRule = QuotaRule.LIFT
    options: tuple[str, ...] | None = None
    """Placement options for this container in place of the node's; None for the node's."""
    numa: NumaRule | None = None
    """None for the node's."""
    near: str = ""
    """The device whose local CPUs it prefers: PCI address, network interface or block device; "" for none."""
    mems: MemsRule = MemsRule.KEEP
    min_cpus: int | None = None
    max_cpus: int | None = None
    scale: Scale = Scale.FILL
    weight: int = 10
    """Its share of what is spare, 1 to 100."""
    grace_seconds: float | None = None
    """Notice before CPUs are taken from it; None for the node's."""
    signal: str = ""
    """The name of the signal that it wants at each change (`HUP`); "" for none."""
    move: bool = False
    """Whether all of its CPUs may be exchanged for better ones."""

    @property
    def floor(self) -> int:
        """How many CPUs it always has."""
        return self.cpus if self.min_cpus is None else self.min_cpus

    @property
    def ceiling(self) -> int:
        """How many CPUs it has at most."""
        return self.cpus if self.max_cpus is None else self.max_cpus


class Batch(msgspec.Struct, frozen=True):
    """CPUs that were taken together: they have one grace."""

    number: int
    cpus: CPUSet


class Leaving(msgspec.Struct, frozen=True, kw_only=True):
    """CPUs that were taken from a container in the books, and that it may still be using.

    They are nobody else's to use before it has left them. It may stay on each until it acknowledges, or until the grace
    of that one is over: then it is `due`. `number` and `cause` are those of the last take; `earlier` are takes before
    that whose grace is not over yet, in their order.
    """

    cpus: CPUSet
    number: int
    cause: Cause
    due: CPUSet = EMPTY
    earlier: tuple[Batch, ...] = ()

    @property
    def waiting(self) -> CPUSet:
        """Those on which the container may stay."""
        return self.cpus - self.due

    @property
    def is_due(self) -> bool:
        """Whether it may stay on none of them."""
        return not self.waiting

    @property
    def batches(self) -> tuple[Batch, ...]:
        """What is waited for, by the takes that it belongs to, in their order."""
        last = self.waiting - union(batch.cpus for batch in self.earlier)
        return (*self.earlier, Batch(self.number, last)) if last else self.earlier

    def within(self, cpus: CPUSet) -> Leaving | None:
        """The same without what is not among these CPUs; None where nothing is left."""
        if not cpus & self.cpus:
            return None
        earlier = tuple(Batch(batch.number, part) for batch in self.earlier if (part := batch.cpus & cpus))
        return msgspec.structs.replace(self, cpus=self.cpus & cpus, due=self.due & cpus, earlier=earlier)

    def over(self, number: int) -> Leaving:
        """The same once the grace of this take, and of all before it, is over."""
        rest = tuple(batch for batch in self.batches if batch.number > number)
        due = self.cpus - union(batch.cpus for batch in rest)
        return msgspec.structs.replace(self, due=due, earlier=tuple(b for b in rest if b.number != self.number))


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a grant, and why it was made."""

    gained: CPUSet = EMPTY
    lost: CPUSet = EMPTY
    cause: Cause


KEPT_MOVES: Final = 5
"""Changes of a grant that are remembered, the last ones, to be explained."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A grant: these CPUs are this container's alone, for as long as it stands in the books.

    `original` is what it was first given and never loses: all of it, or, for an elastic container, its floor. `layers`
    is what an elastic container holds besides, in the order in which it came. `since` numbers grants in their order
    (higher is later). `ordered` is the size that somebody ordered by `resize`. `cooling` numbers its last growth for as
    long as it may not be shrunk again for its own sake; None after that. `forced` counts takes without its consent.
    """

    demand: Demand
    cpus: CPUSet
    original: CPUSet
    since: int
    layers: tuple[CPUSet, ...] = ()
    ordered: int | None = None
    leaving: Leaving | None = None
    cooling: int | None = None
    forced: int = 0
    moves: tuple[Move, ...] = ()

    @property
    def container(self) -> ContainerKey:
        """Whose it is."""
        return self.demand.container

    @property
    def name(self) -> str:
        """The container's name when it was granted."""
        return self.demand.name


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A wish that was not granted, and why. `demand` is None where the labels themselves were the reason."""

    container: ContainerKey
    name: str
    refusal: Refusal
    demand: Demand | None = None


class Originals(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine forgets at the first update: the settings the container was created with.

    `cpuset` and `mems` are the engine's text, "" where nothing was set. `nano_cpus` is in 1e-9 CPUs, `cpu_quota` and
    `cpu_period` in microseconds, each 0 where nothing was set.
    """

    cpuset: str = ""
    mems: str = ""
    nano_cpus: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0


class State(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The books: every CPU of the host, and who holds it. Containers stand in it by their keys.

    `online` is what may be used at all; `reserved` is never granted, and is in the shared pool unless `strict`;
    `isolated` may be granted, and is never in the shared pool.
    `lifts` says to which values, in 1e-9 CPUs, the limit of a container was lifted: what stands at one of them is ours
    to put back. `grants` counts all grants ever made, and numbers the next.
    """

    policy: str = "none"
    online: CPUSet = EMPTY
    reserved: CPUSet = EMPTY
    strict: bool = False
    isolated: CPUSet = EMPTY
    assignments: Mapping[ContainerKey, Assignment] = {}
    refusals: Mapping[ContainerKey, Refused] = {}
    originals: Mapping[ContainerKey, Originals] = {}
    lifts: Mapping[ContainerKey, tuple[int, ...]] = {}
    grants: int = 0
    takes: int = 0
    """Counts all changes of grants ever made, and numbers the next."""
    forced: int = 0
    """Takes whose grace ended before the workload acknowledged, ever."""
    acknowledged: int = 0
    """Takes that the workload acknowledged in time, ever."""

    @cached_property
    def exclusive(self) -> CPUSet:
        """All CPUs that are granted to somebody."""
        return union(assignment.cpus for assignment in self.assignments.values())

    @cached_property
    def leaving(self) -> CPUSet:
        """All CPUs that somebody may still be using who holds them no more."""
        return union(each.leaving.cpus for each in self.assignments.values() if each.leaving)

    @cached_property
    def shared(self) -> CPUSet:
        """The shared pool: where everybody without a grant may run.

        A strict reservation keeps the reserved CPUs out of it, unless there is nothing else: it is never empty.
        """
        pool = self.online - self.exclusive - self.isolated
        return (pool - self.reserved if self.strict else pool) or self.reserved

    @cached_property
    def vacated(self) -> CPUSet:
        """The part of the shared pool that no container is still leaving; the reserved CPUs if there is none."""
        return (self.shared - self.leaving) or self.reserved

    @cached_property
    def assignable(self) -> CPUSet:
        """What could be granted now: all that is neither granted nor reserved."""
        return self.online - self.exclusive - self.reserved

    def granted(self, demand: Demand, cpus: CPUSet, original: CPUSet = EMPTY) -> State:
        """The books after granting `cpus`. An earlier refusal of the same container is forgotten."""
        layers = (cpus - original,) if original and cpus - original else ()
        made = Assignment(demand=demand, cpus=cpus, original=original or cpus, since=self.grants, layers=layers)
        return msgspec.structs.replace(
            self,
            assignments={**self.assignments, demand.container: made},
            refusals=_without(self.refusals, demand.container),
            grants=self.grants + 1,
        )

    def holding(self, assignment: Assignment) -> State:
        """The books with this grant as it is now, in place of the one that its container had."""
        return msgspec.structs.replace(self, assignments={**self.assignments, assignment.container: assignment})

    def refused(self, refused: Refused) -> State:
        """The books after a refusal; what the container held, if anything, is shared again."""
        if self.refusals.get(refused.container) == refused and refused.container not in self.assignments:
            return self
        return msgspec.structs.replace(
            self,
            assignments=_without(self.assignments, refused.container),
            refusals={**self.refusals, refused.container: refused},
        )

    def released(self, container: ContainerKey) -> State:
        """The books after a container gave back its CPUs, or its wish: it may ask anew."""
        if container not in self.assignments and container not in self.refusals:
            return self
        return msgspec.structs.replace(
            self,
            assignments=_without(self.assignments, container),
            refusals=_without(self.refusals, container),
        )

    def remembering(self, container: ContainerKey, originals: Originals) -> State:
        """The books with a container's original settings, which once written are never overwritten."""
        if container in self.originals:
            return self
        return msgspec.structs.replace(self, originals={**self.originals, container: originals})

    def lifting(self, container: ContainerKey, nano_cpus: int) -> State:
        """The books with one more value that a container's limit is lifted to, before it is."""
        known = self.lifts.get(container, ())
        if nano_cpus in known:
            return self
        return msgspec.structs.replace(self, lifts={**self.lifts, container: (*known, nano_cpus)})

    def put_back(self, container: ContainerKey) -> State:
        """The books once a container has its own limit again."""
        if container not in self.lifts:
            return self
        return msgspec.structs.replace(self, lifts=_without(self.lifts, container))

    def forgetting(self, container: ContainerKey) -> State:
        """The books without any trace of a container that no longer exists."""
        state = self.released(container).put_back(container)
        if container not in state.originals:
            return state
        return msgspec.structs.replace(state, originals=_without(state.originals, container))


def _without(mapping: Mapping[ContainerKey, T], key: ContainerKey) -> Mapping[ContainerKey, T]:
    if key not in mapping:
        return mapping
    return {k: v for k, v in mapping.items() if k != key}
