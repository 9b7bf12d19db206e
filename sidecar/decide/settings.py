"""Settings: the part of the configuration that decisions need, and the words in which it is written."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping

import msgspec

from state.cpuset import EMPTY, CPUSet
from state.demand import NumaRule, Shortage
from state.exec_rule import ExecRule


class PolicyName(enum.StrEnum):
    """The rules that decide: none, the kubelet's static ones, or those with sizes that change."""

    NONE = "none"
    STATIC = "static"
    DYNAMIC = "dynamic"


class OptIn(enum.StrEnum):
    """How a container asks for exclusive CPUs: by its label only, or also by limits that make it guaranteed."""

    LABEL = "label"
    GUARANTEED = "guaranteed"


class IsolatedRule(enum.StrEnum):
    """How isolated CPUs are granted to exclusive containers. The shared pool has them only under `ignore`."""

    IGNORE = "ignore"
    """Like any other CPUs."""
    PREFER = "prefer"
    """First."""
    ONLY = "only"
    """No others are granted."""


class TenantRight(enum.StrEnum):
    """What users may do with the containers that they create, by labels and settings, if the owner of the host allows
    it. Without these no such container takes a CPU from one with a grant.
    """

    OPT_OUT = "opt-out"
    """Keep the container out of management, by the label `cpuset.manage`."""
    PIN = "pin"
    """Pin the container by hand to CPUs that another container has."""
    LIFT_QUOTA = "lift-quota"
    """Have the CPU limit lifted on more CPUs than it amounts to."""
    PRIORITY = "priority"
    """Choose the container's priority in the queue, by the label `cpuset.priority`."""


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """How `cpuset.scale: load` follows a load: it keeps the use per CPU between `low` and `high` (0 to 1), and asks for
    one more CPU under CPU pressure above `pressure` percent.
    """

    low: float = 0.5
    high: float = 0.8
    pressure: float = 20.0


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Labels, by their full names, for the containers that these patterns match; "" matches every container. One with
    a pattern `unit` is for units of the host instead, by their names.

    `place` says where the rule stands in the configuration.
    """

    labels: Mapping[str, str] = {}
    name: str = ""
    project: str = ""
    image: str = ""
    unit: str = ""
    place: str = ""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the configuration that decisions need. `reserved_cpus` takes precedence over `reserved_count`.

    The fields after `linger_seconds` and before `unmanaged` are for the policy `dynamic`: the notice for a workload,
    the cooldown of a container that grew, the fewest CPUs taken at a time unless a floor needs it, the band of
    loads, and the most exchanges of CPUs per round.
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
    longest_notice_seconds: float = 20.0
    """The longest notice that a container has by a label: so long may it keep CPUs from another."""
    grace_seconds: float = 2.0
    cooldown_seconds: float = 10.0
    min_change: int = 1
    band: Band = Band()
    max_moves: int = 2
    may: tuple[TenantRight, ...] = (TenantRight.PRIORITY,)
    """What tenants may do. The owner's own words, in `unmanaged` and `rules`, need no permission."""
    unmanaged: tuple[str, ...] = ()
    """Name patterns (`db-*`) or `label=value` patterns of unmanaged containers."""
    rules: tuple[Rule, ...] = ()
    """In their order: the first one that matches a container is its rule."""
    exec: ExecRule = ExecRule()
    """Where processes begin that join a container with CPUs of its own, without a label."""
    projections: str = "/run/cpuset-sidecar"
    shared_slice: str = ""
    """The shared group: a slice or the path of a cgroup; "" if there is none."""


def shared_id(name: str) -> str:
    """Return the id of the shared group among the containers: 64 hex digits."""
    return hashlib.sha256(name.encode()).hexdigest()
