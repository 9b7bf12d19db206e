"""What a container asks for: a Demand, and the rules that its labels may set."""

from __future__ import annotations

import enum

import msgspec

from state.key import ContainerKey


class Shortage(enum.StrEnum):
    """What a container wants if its CPUs are not available (label `cpuset.on-shortage`)."""

    SHARE = "share"
    """Run in the shared pool."""
    WAIT = "wait"
    """Run in the shared pool, and get the CPUs when they are free."""
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
    """On as few nodes as possible now."""
    RESTRICTED = "restricted"
    """On as few nodes as the empty machine would need, or not at all."""
    SINGLE = "single"
    """On one node, or not at all (the kubelet's single-numa-node)."""


class MemsRule(enum.StrEnum):
    """What happens to the memory nodes of a container that has exclusive CPUs (label `cpuset.mems`)."""

    KEEP = "keep"
    FOLLOW = "follow"
    """They are the nodes of its CPUs."""


class Scale(enum.StrEnum):
    """What decides how many CPUs an elastic container has between its floor and its ceiling (label `cpuset.scale`)."""

    FILL = "fill"
    """It gets its share of all spare CPUs."""
    LOAD = "load"
    """Its use decides."""
    MANUAL = "manual"
    """`resize` decides."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """A container's valid request for `cpus` whole exclusive CPUs (at least 1).

    The fields after `mems` matter only under the policy `dynamic`: 1 <= `min_cpus` <= `cpus` <= `max_cpus`, None if not
    given.
    """

    container: ContainerKey
    name: str
    cpus: int
    shortage: Shortage = Shortage.SHARE
    quota: QuotaRule = QuotaRule.LIFT
    options: tuple[str, ...] | None = None
    """Placement options for this container instead of the node's; None for the node's."""
    numa: NumaRule | None = None
    """None for the node's."""
    near: str = ""
    """The device whose local CPUs it prefers: PCI address, network interface or block device; "" for none."""
    mems: MemsRule = MemsRule.KEEP
    min_cpus: int | None = None
    max_cpus: int | None = None
    scale: Scale = Scale.FILL
    weight: int = 10
    """Its share of the spare CPUs, 1 to 100."""
    grace_seconds: float | None = None
    """Notice before CPUs are taken from it; None for the node's."""
    signal: str = ""
    """The name of the signal that it wants at each change (`HUP`); "" for none."""
    move: bool = False
    """Whether all of its CPUs may be exchanged for better ones."""
    priority: int = 5
    """Its place in the queue comes before those of a lower priority, 0 to 9."""
    role: str = ""
    """What one container after the other is, like a service and number of compose; "" if it has no such role."""

    @property
    def floor(self) -> int:
        """How many CPUs it always has."""
        return self.cpus if self.min_cpus is None else self.min_cpus

    @property
    def ceiling(self) -> int:
        """How many CPUs it has at most."""
        return self.cpus if self.max_cpus is None else self.max_cpus

    def succeeds(self, before: Demand) -> bool:
        """Return whether its container replaces that of the other demand: same role or name, on the same engine."""
        if self.container == before.container or self.container.engine != before.container.engine:
            return False
        return self.name == before.name or (bool(self.role) and self.role == before.role)
