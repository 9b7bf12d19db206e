"""Settings: what of the configuration decisions need, and the words that it is written in."""

from __future__ import annotations

import enum
import hashlib

import msgspec

from state.cpuset import EMPTY, CPUSet
from state.model import NumaRule, Shortage


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


def shared_id(name: str) -> str:
    """The id under which the cgroup that confines the shared pool stands among the containers: 64 hex digits."""
    return hashlib.sha256(name.encode()).hexdigest()
