"""Why a grant changed, as a value: Cause, with the facts of each kind. The sentences are made elsewhere."""

from __future__ import annotations

import enum

import msgspec

from state.cpuset import CPUSet
from state.refusal import Said


class Resized(msgspec.Struct, frozen=True, tag=True):
    """A `resize` ordered this number of CPUs."""

    cpus: int


class Used(msgspec.Struct, frozen=True, tag=True):
    """It used this much of the CPUs that it had (`use` in CPUs, by tenths)."""

    use: float
    of: int


class Surplus(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`count` CPUs above the floor of the container of this name went elsewhere."""

    name: str
    count: int
    floor: int


class TakenOver(Surplus, frozen=True, kw_only=True, tag=True):
    """They were granted to a container that `arrived`."""

    arrived: str


class SharedAnew(Surplus, frozen=True, kw_only=True, tag=True):
    """They are shared out again, since `others` containers arrived, or may have more CPUs if `is_growth`; `names` are
    the first few of those containers.
    """

    names: tuple[str, ...]
    others: int
    is_growth: bool = False


class FewerToShare(Surplus, frozen=True, kw_only=True, tag=True):
    """The machine or a setting leaves fewer CPUs to share out."""


class Gone(msgspec.Struct, frozen=True, tag=True):
    """These CPUs of it went offline or became reserved."""

    cpus: CPUSet


class ByItsRules(msgspec.Struct, frozen=True, tag=True):
    """It lies on whole cores and NUMA nodes again as its rules require."""


class Completed(msgspec.Struct, frozen=True, tag=True):
    """It held fewer CPUs than the policy grants it: now it has this number."""

    cpus: int


class Pinned(msgspec.Struct, frozen=True, tag=True):
    """A container was pinned by hand to these CPUs of it."""

    cpus: CPUSet


class Spare(msgspec.Struct, frozen=True, tag=True):
    """`count` CPUs were spare, and the container may have up to its ceiling."""

    count: int
    ceiling: int


class Level(enum.StrEnum):
    """A level of the machine at which CPUs can lie together."""

    NODE = "node"
    CACHE = "cache"
    CORE = "core"


class Together(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It was moved onto fewer groups of a level: `now` instead of `before`."""

    level: Level
    now: int
    before: int


class ForOthers(msgspec.Struct, frozen=True, tag=True):
    """It was moved to improve the placement of others."""


Cause = (
    Said
    | Resized
    | Used
    | TakenOver
    | SharedAnew
    | FewerToShare
    | Gone
    | ByItsRules
    | Completed
    | Pinned
    | Spare
    | Together
    | ForOthers
)
"""Why a grant changed."""
